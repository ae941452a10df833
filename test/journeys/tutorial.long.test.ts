/** Follows docs/tutorial.md exactly, in an empty folder with other ports: its page, its nginx, and a browser. */
import { chmodSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { emptyFolder, stepsOf } from '../server/shown-steps.ts';
import { useBrowser } from '../support/browser.ts';
import { PASSWORD } from '../support/gatehouse.ts';
import { navigateBy, signOutFromMenu } from '../support/journey.ts';
import { skipIfMissing } from '../support/missing.ts';
import { missingNginx } from '../support/nginx.ts';
import { freePort } from '../support/ports.ts';
import { isRunning, type Program, startProgram } from '../support/program.ts';
import { until } from '../support/until.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const text = readFileSync(join(ROOT, 'docs/tutorial.md'), 'utf8');

// The browser reports a missing icon, and each refused call for the thread.
const expected = /favicon\.ico|status of (401|403|502)/;
const openPage = useBrowser();

let programs: Program[] = [];
afterEach(async () => {
  for (const program of programs.filter(({ pid }) => isRunning(pid)))
    for (const pid of [...program.children(), program.pid]) if (isRunning(pid)) program.signal('SIGTERM', pid);
  await Promise.all(programs.map(({ ended }) => ended));
  programs = [];
});

test('the tutorial ends with the thread on its page, and with a reconnection after the consent is revoked', async (context) => {
  skipIfMissing(context, missingNginx);
  const page = await openPage({}, expected);
  const [nginxPort, gatehousePort, sandboxPort] = [await freePort(), await freePort(), await freePort(3)];
  const ports: Record<string, number> = {
    8080: nginxPort,
    3000: gatehousePort,
    3001: sandboxPort,
    3002: sandboxPort + 1,
  };
  const withPorts = (words: string) =>
    words.replaceAll(/127\.0\.0\.1:(\d{4})\b/g, (all, port: string) => all.replace(port, String(ports[port])));

  const folder = emptyFolder();
  // If root runs this, nginx's worker is another user.
  chmodSync(folder, 0o755);
  for (const name of ['package.json', 'src', 'views', 'node_modules'])
    symlinkSync(join(ROOT, name), join(folder, name));
  const env = {
    PORT: String(gatehousePort),
    MANAGEMENT_PORT: String(await freePort()),
    SANDBOX_PORT: String(sandboxPort),
  };
  const run = (steps: string) => {
    const program = startProgram(['sh', '-ec', withPorts(steps)], env, folder);
    programs.push(program);
    return program;
  };
  const [writePage = '', startSandbox = '', startGatehouse = '', serve = ''] = stepsOf(text);

  expect(await run(writePage).ended).toMatchObject({ status: 0 });
  await run(startSandbox).printed('The sandbox is ready.');
  await run(startGatehouse).printed(`Gatehouse is ready at http://127.0.0.1:${nginxPort}/gatehouse`);
  expect(await run(serve).ended).toMatchObject({ status: 0 });
  const [, stopNginx = ''] = /`(nginx -p [^`]* -s stop)`/.exec(text) ?? [];

  try {
    const siteUrl = `http://127.0.0.1:${nginxPort}/`;
    const follow = () => navigateBy(page, () => page.getByRole('link', { name: 'Continue' }).click());
    await page.goto(siteUrl);
    await page.getByText('Sign in first').waitFor();
    await follow();
    await page.locator('input[name=login]').fill('user@example.test');
    await page.locator('input[name=password]').fill(PASSWORD);
    await navigateBy(page, () => page.getByRole('button', { name: 'Sign in' }).click());
    await navigateBy(page, () => page.getByRole('button', { name: 'Allow' }).click());
    expect(page.url()).toBe(siteUrl);
    await page.getByText('Spring launch: plan and open questions, by Uma Okafor').waitFor();

    await page.goto(`http://127.0.0.1:${sandboxPort}/account`);
    await navigateBy(page, () => page.getByRole('button', { name: 'Revoke access' }).click());
    const [, firstTitle = ''] = /within seconds[^"]*"([^"]+)"/.exec(text) ?? [];
    const link = page.getByRole('link', { name: 'Continue' });
    await until(async () => {
      await page.goto(siteUrl);
      await page.getByText('Loading…').waitFor({ state: 'hidden' });
      if ((await link.count()) > 0) return true;
      // A token that was issued seconds ago is not refreshed.
      expect(await page.locator('#state').textContent()).toBe(`${firstTitle}. `);
      return false;
    });
    await follow();
    expect(page.url()).toContain('/gatehouse/connections/platform?return_to=');
    await navigateBy(page, () => page.getByRole('button', { name: /econnect/ }).click());
    await navigateBy(page, () => page.getByRole('button', { name: 'Allow' }).click());
    expect(page.url()).toBe(siteUrl);
    await page.getByText('Spring launch: plan and open questions, by Uma Okafor').waitFor();

    await page.goto(`${siteUrl}gatehouse/`);
    await signOutFromMenu(page);
    await navigateBy(page, () => page.getByRole('button', { name: 'Sign out' }).click());
    expect(page.url()).toBe(`${siteUrl}gatehouse/`);
  } finally {
    expect(stopNginx).not.toBe('');
    await run(stopNginx).ended;
  }
});
