/** `npm run demo` behind the Vite configuration of docs/your-front-end.md, and faults of its command line. */
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { emptyFolder } from '../server/shown-steps.ts';
import { endDemos, ROOT, startDemo } from '../support/demo.ts';
import { getJson, signIn } from '../support/gatehouse.ts';
import { freePort } from '../support/ports.ts';
import { startProgram } from '../support/program.ts';
import { sendRequest } from '../support/send-request.ts';
import { until } from '../support/until.ts';

afterEach(endDemos);

async function startVite(gatehousePort: string, port: string): Promise<string> {
  const text = readFileSync(join(ROOT, 'docs/your-front-end.md'), 'utf8');
  const [, config = ''] = /^```js vite.config.js\n([\s\S]*?)^```$/m.exec(text) ?? [];
  const folder = emptyFolder();
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'vite.config.js'), config.replace('3000', gatehousePort).replace('5173', port));
  writeFileSync(join(folder, 'index.html'), '<p>The site</p>');
  const vite = startProgram(['node', 'node_modules/vite/bin/vite.js'], {}, folder);
  onTestFinished(async () => {
    vite.signal('SIGTERM');
    await vite.ended;
  });
  const url = `http://localhost:${port}`;
  await until(async () => (await sendRequest(`${url}/`).catch(() => undefined))?.status === 200);
  return url;
}

test('a page behind Vite signs users in with the demo, reads their thread, and signs them out', async () => {
  const vitePort = String(await freePort());
  const { program, env } = await startDemo({ PUBLIC_URL: `http://localhost:${vitePort}/gatehouse` });
  await program.printed('Ctrl+C');
  const site = await startVite(env.PORT, vitePort);
  const url = `${site}/gatehouse`;
  expect(program.stdout()).toContain(`Gatehouse is ready at ${url}\n`);
  expect(program.stdout()).toContain(`forward these requests to http://127.0.0.1:${env.PORT}/gatehouse`);

  const path = '/sign-in?app=platform&return_to=/board';
  const { agent, page } = await signIn({ url }, 'user@example.test', { path });
  expect(page.url).toBe(`${site}/board`);
  const { json } = await getJson(agent, `${url}/threads/current?app=platform`);
  expect(json).toMatchObject({ thread: { author: { name: 'Uma Okafor' } } });

  const home = await agent.get(`${url}/`);
  const question = await agent.submit(home, {}, { button: 'Sign out' });
  const signedOut = await agent.submit(question, {}, { button: 'Sign out' });
  expect(signedOut.url).toBe(`${url}/`);
  expect(signedOut.body).toContain('Sign in with');
});

test('an invalid command line or variable ends the demo with a message', async () => {
  const run = async (args: string[], env: Record<string, string> = {}) => {
    const program = startProgram(['npm', 'run', '-s', 'demo', '--', ...args], env);
    const { status } = await program.ended;
    return { status, stdout: program.stdout(), stderr: program.stderr() };
  };
  const [help, option, port] = await Promise.all([
    run(['--help']),
    run(['--port', '1']),
    run([], { PORT: 'x', PUBLIC_URL: 'https://gatehouse.example.com' }),
  ]);
  expect([help.status, help.stderr]).toEqual([0, '']);
  for (const name of ['PORT', 'MANAGEMENT_PORT', 'SANDBOX_PORT', 'PUBLIC_URL', 'LOG_LEVEL'])
    expect(help.stdout).toMatch(`\n  ${name} `);
  expect([option.status, option.stderr]).toEqual([1, expect.stringContaining("unknown option '--port'")]);
  expect([port.status, port.stderr]).toEqual([1, expect.stringMatching(/- PORT must be .*\n- PUBLIC_URL: /)]);
});
