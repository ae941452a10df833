/** The sandbox starts on loopback, says what is wrong if it cannot, and stops clean. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ADMIN_TOTP_SECRET } from '../../src/sandbox/accounts.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { createCommand, readSettings } from '../../src/sandbox/settings.ts';
import { codeOf } from '../../src/shared/errors.ts';
import { endWithUs } from '../support/left-running.ts';
import { freePort } from '../support/ports.ts';
import { createBrowser, PASSWORD, startForeignClient } from './foreign-client.ts';

const parts = { clients: [], binService: (_req: unknown, res: { end(): unknown }) => void res.end() };
const MAIN = fileURLToPath(new URL('../../src/sandbox.ts', import.meta.url));

function run(env: Record<string, string>, ...args: string[]) {
  const child = endWithUs(spawn(process.execPath, [MAIN, ...args], { env: { ...process.env, ...env } }));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
  return { child, output: () => output, ended: once(child, 'close') };
}

describe('starting and stopping', () => {
  it.each(['0.0.0.0', '192.0.2.1', '::', 'example.com', '127.0.0.1.example.com'])(
    'refuses to listen on %s',
    async (host) => {
      await expect(startSandbox({ ...parts, host })).rejects.toThrow('only on loopback');
    },
  );

  it('listens elsewhere when told twice, under the name that others use', async () => {
    const told = { ...parts, host: '0.0.0.0', beyondLoopback: true };
    await expect(startSandbox(told)).rejects.toThrow('--public-host');
    const sandbox = await startSandbox({ ...told, publicHost: 'sandbox.internal' });
    expect(new URL(sandbox.issuer).hostname).toBe('sandbox.internal');
    const { port } = new URL(sandbox.issuer);
    const discovery = await fetch(`http://127.0.0.1:${port}/.well-known/openid-configuration`);
    expect(await discovery.json()).toMatchObject({ issuer: sandbox.issuer });
    await sandbox.close();
  });

  it('takes three ports in a row, and all or none of them', async () => {
    const port = (await freePort(5)) + 2;
    const sandbox = await startSandbox({ ...parts, port });
    const ports = [sandbox.issuer, sandbox.platformUrl, sandbox.binServiceUrl].map((url) => Number(new URL(url).port));
    expect(ports).toEqual([port, port + 1, port + 2]);
    await expect(startSandbox({ ...parts, port: port - 2 })).rejects.toThrow(`Port ${port} is taken`);
    await expect(startSandbox({ ...parts, port: port - 1 })).rejects.toThrow(
      `Port ${port} is taken. Port ${port + 1} is taken. The sandbox needs`,
    );
    await sandbox.close();
    const blocker = createServer().listen(port + 2, '127.0.0.1');
    await once(blocker, 'listening');
    await expect(startSandbox({ ...parts, port })).rejects.toThrow(`Port ${port + 2} is taken`);
    const probe = createServer().listen(port, '127.0.0.1');
    await once(probe, 'listening');
    expect((probe.address() as AddressInfo).port).toBe(port);
    await Promise.all([blocker, probe].map((server) => new Promise((resolve) => server.close(resolve))));
  });

  it('responds to requests that arrive during the start once it can', async () => {
    const port = (await freePort(5)) + 2;
    const starting = startSandbox({ ...parts, port });
    const statusOf = async (one: number) => {
      for (;;) {
        const response = await fetch(`http://127.0.0.1:${one}/`).catch((error: Error) => error);
        if (!(response instanceof Error)) return response.status;
        // The port is not open yet.
        if (codeOf(response.cause) !== 'ECONNREFUSED') throw response;
      }
    };
    const early = [port, port + 1, port + 2].map(statusOf);
    const sandbox = await starting;
    expect(await Promise.all(early)).toEqual([200, 404, 200]);
    await sandbox.close();
  });

  it('closes while requests hang', async () => {
    const { sandbox } = await startForeignClient();
    sandbox.faults.set({ on: 'platform', kind: 'drip' });
    const answer = await fetch(sandbox.platformUrl);
    await sandbox.close();
    await expect(answer.text()).rejects.toThrow();
    await expect(fetch(sandbox.issuer)).rejects.toThrow();
  });
});

describe('node src/sandbox.ts', () => {
  it('says where everything is, without warnings, and stops with status 0 on SIGTERM', async () => {
    const port = (await freePort(5)) + 2;
    const folder = mkdtempSync(join(tmpdir(), 'gatehouse-sandbox-test-'));
    const env = { SANDBOX_PORT: String(port), SANDBOX_BIN_API_KEY: 'the one key', TMPDIR: folder };
    const { child, output, ended } = run(env);
    await expect.poll(output).toContain('Stop it with');
    expect(output()).toMatch(/^The sandbox is ready\./);
    expect(output()).not.toMatch(/warning/i);
    const discovery = await fetch(`http://127.0.0.1:${port}/.well-known/openid-configuration`);
    expect(await discovery.json()).toMatchObject({ issuer: `http://127.0.0.1:${port}` });
    const bin = async (headers = {}) => (await fetch(`http://127.0.0.1:${port + 2}/45717360`, { headers })).status;
    expect(output()).toContain('with the one key');
    expect(await bin()).toBe(200);
    expect(await bin({ authorization: `Basic ${btoa('the one key:')}` })).toBe(200);
    expect(await bin({ authorization: 'Bearer another' })).toBe(401);
    const browser = createBrowser();
    const login = await browser.get(`http://127.0.0.1:${port + 2}/account/sign-in`);
    const consent = await browser.submit(login, { login: 'user@example.test', password: PASSWORD });
    const account = await browser.submit(consent, {}, { button: 'Allow' });
    expect(account.url).toBe(`http://127.0.0.1:${port + 2}/account`);
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    expect(output()).not.toMatch(/warning|"level"/i);
    expect(readdirSync(folder)).toEqual([]);
    rmSync(folder, { recursive: true });
  });

  it.each([{ SANDBOX_PUBLIC_HOST: 'sandbox.internal' }, { SANDBOX_HOST: '0.0.0.0', SANDBOX_PUBLIC_HOST: 'localhost' }])(
    'has the BIN lookup service without accounts where it listens beyond loopback, and says so: %j',
    async (at) => {
      const port = (await freePort(5)) + 2;
      const { child, output, ended } = run({ SANDBOX_PORT: String(port), SANDBOX_BEYOND_LOOPBACK: 'yes', ...at });
      await expect.poll(output).toContain('Stop it with');
      expect(output()).toContain('without accounts, which need the sandbox on loopback');
      expect((await fetch(`http://127.0.0.1:${port + 2}/45717360`)).status).toBe(200);
      const card = await fetch(`http://127.0.0.1:${port + 2}/424242`);
      expect(card.headers.get('gatehouse-test-data')).toBe('true');
      expect((await fetch(`http://127.0.0.1:${port + 2}/account`)).status).toBe(400);
      child.kill('SIGTERM');
      expect(await ended).toEqual([0, null]);
    },
  );

  it('fails with one sentence when a port is taken', async () => {
    const sandbox = await startSandbox(parts);
    const taken = run({ SANDBOX_PORT: new URL(sandbox.issuer).port });
    expect(await taken.ended).toEqual([1, null]);
    expect(taken.output()).toMatch(/^Port \d+ is taken\..*SANDBOX_PORT.*\n$/);
    await sandbox.close();
  });

  it('tells every setting, once as an option and once as a variable', async () => {
    const help = run({}, '--help');
    expect(await help.ended).toEqual([0, null]);
    const options = createCommand('').options.filter(({ envVar }) => envVar !== undefined);
    expect(options.length).toBeGreaterThan(15);
    const told = help.output().replaceAll(/\s+/g, ' ');
    for (const { long, envVar } of options) {
      expect(told).toContain(` ${long} `);
      expect(told).toMatch(new RegExp(`env: ${envVar}\\)`));
    }
    const secrets = [...readFileSync(MAIN, 'utf8').matchAll(/process\.env\.(\w+)/g)].map(([, name = '']) => name);
    expect(secrets).toContain('SANDBOX_CLIENT_SECRET');
    for (const secret of [...secrets, ADMIN_TOTP_SECRET]) expect(told).toContain(secret);
  });

  it('tells every fault of its settings, and of its seed file, at once', async () => {
    const wrong = run(
      { SANDBOX_REFRESH_POLICY: 'never', SANDBOX_PORT: 'first' },
      '--grace-seconds',
      '0',
      '--callback-url',
      'http://x.example/',
    );
    expect(await wrong.ended).toEqual([1, null]);
    expect(
      wrong
        .output()
        .split('\n')
        .filter((line) => line.startsWith('- ')),
    ).toEqual([
      expect.stringContaining('--port (SANDBOX_PORT) must be a whole number'),
      expect.stringContaining('--callback-url (SANDBOX_CALLBACK_URL) must begin with https:'),
      expect.stringContaining('--refresh-policy (SANDBOX_REFRESH_POLICY) must be one of'),
      expect.stringContaining('--grace-seconds (SANDBOX_GRACE_SECONDS) must be 1 or more'),
    ]);
    const missing = run({}, '--seed', '/nowhere/seed.json');
    expect(await missing.ended).toEqual([1, null]);
    expect(missing.output()).toContain('/nowhere/seed.json is wrong:\n- It cannot be read');
  });

  it('does not leave loopback because a variable says no', () => {
    const read = (value: string) => readSettings({ ...createCommand('').opts(), beyondLoopback: value }).settings;
    expect(read('no')?.beyondLoopback).toBe(false);
    expect(read('')?.beyondLoopback).toBeUndefined();
    expect(read('yes')?.beyondLoopback).toBe(true);
  });
});
