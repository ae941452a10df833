/** `npm run demo`: a newcomer's first minute. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { getJson, signIn } from '../support/gatehouse.ts';
import { freePort } from '../support/ports.ts';
import { isRunning, type Program, startProgram } from '../support/program.ts';

const DEMO = ['npm', 'run', 'demo'];
const READY_MILLISECONDS = 10_000;

let directory: string;
let programs: Program[];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-demo-test-'));
  programs = [];
});
afterEach(async () => {
  for (const program of programs) {
    const left = isRunning(program.pid) ? [...program.children(), program.pid] : [];
    for (const pid of left) if (isRunning(pid)) program.signal('SIGKILL', pid);
    await program.ended;
  }
  rmSync(directory, { recursive: true, force: true });
});

async function demo(changes: Record<string, string> = {}) {
  const port = String(await freePort());
  const env = {
    PORT: port,
    MANAGEMENT_PORT: String(await freePort()),
    SANDBOX_PORT: String(await freePort(3)),
    DATA_DIR: directory,
    ...changes,
  };
  const program = startProgram(DEMO, env);
  programs.push(program);
  return { program, env, url: `http://127.0.0.1:${env.PORT}` };
}

test('is ready within 10 s, does what it says, and SIGTERM to npm ends all of it with 0', async () => {
  const { program, url } = await demo();
  expect(await program.printed(`Gatehouse is ready at ${url}`)).toBeLessThan(READY_MILLISECONDS);
  for (const said of ['user@example.test', 'second@example.test', 'admin@example.test', 'gatehouse-demo', '45717360']) {
    expect(program.stdout()).toContain(said);
  }
  const { agent } = await signIn({ url });
  expect((await getJson(agent, `${url}/threads/current`)).status).toBe(200);
  expect((await getJson(agent, `${url}/bin/45717360`)).json).toMatchObject({ scheme: 'visa' });

  const children = program.children();
  expect(children.length).toBeGreaterThan(0);
  program.signal('SIGTERM');
  expect(await program.ended).toEqual({ status: 0, signal: null });
  expect(children.filter(isRunning)).toEqual([]);
  expect(readdirSync(directory)).toEqual([]);
});

test('SIGINT to the whole group, as Ctrl+C sends it, ends it with 0', async () => {
  const { program, url } = await demo();
  await program.printed(`Gatehouse is ready at ${url}`);
  for (const pid of [program.pid, ...program.children()]) program.signal('SIGINT', pid);
  expect((await program.ended).status).toBe(0);
});

test('a second one on the same ports says what to do, and does the first no harm', async () => {
  const first = await demo();
  await first.program.printed('Gatehouse is ready');
  const { agent } = await signIn({ url: first.url });
  const second = await demo({ SANDBOX_PORT: first.env.SANDBOX_PORT });
  expect((await second.program.ended).status).not.toBe(0);
  expect(second.program.stderr()).toMatch(/SANDBOX_PORT/);
  const third = await demo({ PORT: first.env.PORT });
  expect((await third.program.ended).status).not.toBe(0);
  expect(third.program.stderr()).toContain('PORT: another program listens on');
  expect((await getJson(agent, `${first.url}/session`)).json.signedIn).toBe(true);
  expect(existsSync(join(directory, `demo-${first.env.SANDBOX_PORT}`))).toBe(true);
});
