/** `npm run demo`: the first minutes with Gatehouse, and its three uses as the terminal describes them. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { type Demo, endDemos, ROOT, startDemo } from '../support/demo.ts';
import { getJson, PASSWORD, signIn } from '../support/gatehouse.ts';
import { completeProviderSignIn, navigateBy } from '../support/journey.ts';
import { isRunning } from '../support/program.ts';
import { processorWaitOf } from '../support/stopwatch.ts';

const READY_MILLISECONDS = 10_000;
const AS_USER = { path: '/sign-in?app=platform' };

describe('a demo in the shell of a real Gatehouse', () => {
  let demo: Demo;
  let otherDirectory: string;
  let milliseconds: number;
  beforeAll(async () => {
    otherDirectory = mkdtempSync(join(tmpdir(), 'gatehouse-demo-test-'));
    demo = await startDemo({
      HOST: '192.0.2.1',
      DATA_DIR: otherDirectory,
      REDIS_URL: 'redis://127.0.0.1:1',
      REDIS_DURABILITY: 'none',
      BIN_SERVICE_URL: 'https://bins.example.com',
      CONNECTED_APPS_FILE: join(otherDirectory, 'missing.json'),
      ADMIN_APP: 'nobody',
      ADMIN_ACR: 'mfa',
      HTTPS_PROXY: 'http://127.0.0.1:1',
      TRUSTED_PROXIES: 'not a network',
      LOG_LEVEL: 'debug',
    });
    milliseconds = await demo.program.printed(`Gatehouse is ready at ${demo.url}`);
    // The time for which npm and node waited for a processor does not count.
    milliseconds -= processorWaitOf([demo.program.pid, ...demo.program.children()]);
  });
  afterAll(async () => {
    await endDemos();
    rmSync(otherDirectory, { recursive: true, force: true });
  });
  /** Returns the line of the terminal that contains the text. */
  const lineWith = (text: string) =>
    demo.program
      .stdout()
      .split('\n')
      .find((line) => line.includes(text)) ?? '';
  const addressInLineWith = (text: string) => /http:\S+/.exec(lineWith(text))?.[0].replace(/[,.]$/, '') ?? '';

  test('is ready within 10 s, and prints a text that fits the terminal', () => {
    expect(milliseconds).toBeLessThan(READY_MILLISECONDS);

    const lines = demo.program.stdout().trimEnd().split('\n');
    // npm first prints the command that it runs.
    expect(lines.length).toBeLessThan(30);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(110);

    for (const text of ['user@example.test', 'second@example.test', 'admin@example.test', 'gatehouse-demo', '45717360'])
      expect(demo.program.stdout()).toContain(text);
  });

  test('reads only its own settings, and none of the real Gatehouse', async () => {
    expect(readdirSync(otherDirectory)).toEqual([]);
    const { agent } = await signIn(demo, 'user@example.test', AS_USER);
    expect((await getJson(agent, `${demo.url}/bin/45717360`)).json).toMatchObject({ scheme: 'visa' });
  });

  test('writes its log to the file that the terminal names, and not to the terminal', async () => {
    const file = join(ROOT, lineWith('Log  ').replace('Log', '').trim());
    expect(file).toBe(join(demo.directory, 'demo.log'));

    await getJson((await signIn(demo, 'user@example.test', AS_USER)).agent, `${demo.url}/threads/current?app=nobody`);
    await expect.poll(() => readFileSync(file, 'utf8')).toContain('"code":"not_found"');
    expect(demo.program.stdout() + demo.program.stderr()).not.toContain('"level"');
  });

  describe('in Chromium', () => {
    const openPage = useBrowser();

    test('shows the three uses, by the steps of the terminal and the tour', async () => {
      const guide = await openPage();
      await guide.goto(addressInLineWith('/tour'));
      const tourText = await guide.locator('main').innerText();
      /** Runs the documented call of this path. */
      const curl = (path: string) => {
        const commands = `${demo.program.stdout()}\n${tourText}`.match(/\bcurl [\s\S]*?'$(?!\n +-)/gm) ?? [];
        const command = commands.find((text) => text.includes(path)) ?? '';
        const output = execFileSync('sh', ['-c', command], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
        // With `-i`, the headers come first.
        return JSON.parse(output.split('\r\n\r\n').at(-1) ?? '');
      };
      const user = await openPage();
      await user.goto(addressInLineWith('Gatehouse is ready'));
      await navigateBy(user, () => user.getByRole('link', { name: 'Sign in with Collaboration platform' }).click());
      await completeProviderSignIn(user, demo);
      expect(await user.locator('body').innerText()).toContain('Spring launch');
      const [, call = ''] = /open (GET \S+) under "API calls"/.exec(demo.program.stdout()) ?? [];
      const list = await user.getByRole('link', { name: call, exact: true }).getAttribute('href');
      expect(await (await user.request.get(`${demo.url}${list}`)).text()).toContain('Launch: questions and answers');

      await user.getByLabel('First digits of the card').fill('45717360');
      await navigateBy(user, () => user.getByRole('button', { name: 'Look up' }).click());
      expect(await user.locator('body').innerText()).toContain('Jyske Bank');

      const administrator = await openPage({}, /Failed to load resource: the server responded with a status of 400/);
      const save = () =>
        navigateBy(administrator, () => administrator.getByRole('button', { name: 'Save', exact: true }).click());
      const link = (name: string) => guide.getByRole('link', { name, exact: true }).last().getAttribute('href');
      await administrator.goto(addressInLineWith('/admin/connected-apps'));
      await completeProviderSignIn(administrator, demo, 'admin@example.test');
      expect(administrator.url()).toBe(await link('Collaboration platform'));
      expect(await administrator.locator('main').innerText()).toMatch(/Last check:\s+Passed/);

      await navigateBy(administrator, () =>
        administrator.locator('main').getByRole('link', { name: 'Settings', exact: true }).click(),
      );
      await administrator.getByRole('button', { name: 'Add callback URL' }).click();
      await administrator
        .getByLabel('Callback URL 2', { exact: true })
        .fill(/https:\/\/\*\S+/.exec(tourText)?.[0] ?? '');
      await save();
      expect(await administrator.locator('main').innerText()).toContain('Write out every callback URL');

      await administrator.getByRole('button', { name: 'Remove Callback URL 2' }).click();
      await administrator.getByLabel('Other scopes').fill(/the scope (\S+)/.exec(tourText)?.[1] ?? '');
      await save();
      const question = administrator.getByRole('alert');
      expect(await question.innerText()).toMatch(/\d+ connections lack the scope groups/);

      await navigateBy(administrator, () => question.getByRole('button', { name: 'Save' }).click());
      expect(await administrator.locator('main').innerText()).toContain('Saved.');

      await user.goto((await link('your connection')) ?? '');
      await navigateBy(user, () => user.getByRole('button', { name: 'Add permissions' }).click());
      expect(await user.locator('body').innerText()).toContain('Gatehouse demo: Collaboration platform');

      await completeProviderSignIn(user, demo);
      expect(await user.locator('main').innerText()).toMatch(/Active[\s\S]*What you allowed[\s\S]*groups/);

      const { threads } = curl('/1/threads?limit=2') as { threads: { title: string }[] };
      expect(threads.map(({ title }) => title)).toEqual(['Launch: questions and answers', expect.any(String)]);
      expect(curl('/messages')).toMatchObject({ text: 'Who tells the partners?' });
      expect((curl('-X GET') as { html: string }).html).toContain('Who tells the partners?');

      const { url } = curl('/relay/connect-links') as { url: string };
      const other = await openPage({}, /Failed to load resource: the server responded with a status of 403/);
      await other.goto(`${demo.url}/sign-in?app=platform`);
      await completeProviderSignIn(other, demo, 'second@example.test');
      await other.goto(url);
      expect(await other.locator('main').innerText()).toContain('This link is for another user');

      await user.goto(url);
      expect(await user.locator('main').innerText()).toContain('Demo service asks you to connect');

      await navigateBy(user, () => user.getByRole('button', { name: 'Connect' }).click());
      await completeProviderSignIn(user, demo);
      expect([user.url(), await user.locator('main').innerText()]).toEqual([
        `${demo.url}/connections/platform`,
        expect.stringContaining('Active'),
      ]);
    });

    test('the administration finds the refused sign-in by the reference on the terminal', async () => {
      const window = await openPage({}, /Failed to load resource: the server responded with a status of 403/);
      await window.goto(demo.url);
      await navigateBy(window, () => window.getByRole('link', { name: 'Sign in with Collaboration platform' }).click());
      await window.locator('input[name=login]').fill('second@example.test');
      await window.locator('input[name=password]').fill(PASSWORD);
      await navigateBy(window, () => window.getByRole('button', { name: 'Sign in' }).click());
      await navigateBy(window, () => window.getByRole('button', { name: 'Deny' }).click());
      const reference = /\b[0-9a-f]{8}\b/.exec(await window.locator('main').innerText())?.[0] ?? '';
      // The terminal names the links and buttons in their order: of the error page, of the chooser, and of the provider.
      const [, steps = ''] = /There: (.*) Then enter/.exec(demo.program.stdout()) ?? [];
      const [errorPageLink = '', app = '', ...buttons] = steps
        .replace(' sign in as admin@example.test,', '')
        .split(/[,.] ?/);
      await navigateBy(window, () => window.getByRole('link', { name: errorPageLink }).click());
      await navigateBy(window, () => window.getByRole('link', { name: `Sign in with ${app}` }).click());
      await window.locator('input[name=login]').fill('admin@example.test');
      await window.locator('input[name=password]').fill(PASSWORD);
      await navigateBy(window, () => window.getByRole('button', { name: 'Sign in' }).click());
      for (const name of buttons.filter(Boolean))
        await navigateBy(window, () => window.getByRole('button', { name }).click());
      await window.goto(addressInLineWith('/admin/sign-ins'));
      const search = window.locator('main').getByRole('searchbox');
      await search.fill(reference);
      await navigateBy(window, () => search.press('Enter'));
      expect(await window.locator('main').innerText()).toContain('did not consent');
    });
  });

  test('a second demo on the same ports says what to do, and does not affect the first', async () => {
    const { agent } = await signIn(demo, 'user@example.test', AS_USER);
    const [demoOnSandboxPort, demoOnPort] = await Promise.all([
      startDemo({ SANDBOX_PORT: demo.env.SANDBOX_PORT }),
      startDemo({ PORT: demo.env.PORT }),
    ]);
    expect((await demoOnSandboxPort.program.ended).status).not.toBe(0);
    expect(demoOnSandboxPort.program.stderr()).toMatch(/SANDBOX_PORT/);
    expect((await demoOnPort.program.ended).status).not.toBe(0);
    expect(demoOnPort.program.stderr()).toContain('PORT: another program listens on');
    expect((await getJson(agent, `${demo.url}/session`)).json.signedIn).toBe(true);
    expect(existsSync(demo.directory)).toBe(true);
    expect(existsSync(demoOnPort.directory)).toBe(false);
  });

  test('SIGTERM to npm ends every process with 0, and deletes the folder of the demo', async () => {
    const children = demo.program.children();
    expect(children.length).toBeGreaterThan(0);

    demo.program.signal('SIGTERM');
    expect(await demo.program.ended).toEqual({ status: 0, signal: null });
    expect(children.filter(isRunning)).toEqual([]);
    expect(existsSync(demo.directory)).toBe(false);

    const parentFolder = dirname(demo.directory);
    expect(existsSync(parentFolder) && readdirSync(parentFolder).length === 0).toBe(false);
  });
});

describe('on its own', () => {
  afterEach(endDemos);

  test('a service call is refused until its user has signed in, and the response says so', async () => {
    const { program, url } = await startDemo();
    await program.printed('Ctrl+C');
    const [, token = ''] = /Bearer (gthr_[\w-]+)/.exec(program.stdout()) ?? [];
    const [, user = ''] = /Gatehouse-User: ([\w-]+)/.exec(program.stdout()) ?? [];
    const headers = { authorization: `Bearer ${token}`, 'gatehouse-user': user };
    const call = () => fetch(`${url}/relay/threads/current`, { headers });
    const refused = await call();
    expect(refused.ok).toBe(false);
    expect(await refused.json()).toMatchObject({
      code: 'not_found',
      detail: expect.stringContaining('has to sign in first'),
    });

    await signIn({ url }, 'user@example.test', AS_USER);
    expect((await call()).status).toBe(200);

    for (const pid of [program.pid, ...program.children()]) program.signal('SIGINT', pid);
    // Ctrl+C reaches the whole group.
    expect((await program.ended).status).toBe(0);
  });

  test('the demo refuses NODE_ENV=production, and says why', async () => {
    const { program, directory } = await startDemo({ NODE_ENV: 'production' });
    expect((await program.ended).status).toBe(1);
    expect(program.stderr()).toContain('NODE_ENV is production');
    expect(existsSync(directory)).toBe(false);
  });
});
