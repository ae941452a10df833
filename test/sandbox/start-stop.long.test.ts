/** The sandbox starts on loopback, reports faults if it cannot start, and stops cleanly. */
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
import { killOnExit } from '../support/child-processes.ts';
import { freePort } from '../support/ports.ts';
import { createBrowser, PASSWORD, startForeignClient } from './foreign-client.ts';

const OPTIONS = { clients: [], binService: (_req: unknown, res: { end(): unknown }) => void res.end() };
const MAIN = fileURLToPath(new URL('../../src/sandbox.ts', import.meta.url));

function run(env: Record<string, string>, ...args: string[]) {
  const child = killOnExit(spawn(process.execPath, [MAIN, ...args], { env: { ...process.env, ...env } }));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
  return { child, output: () => output, ended: once(child, 'close') };
}

describe('starting and stopping', () => {
  it.each(['0.0.0.0', '192.0.2.1', '::', 'example.com', '127.0.0.1.example.com'])(
    'refuses to listen on %s',
    async (host) => {
      await expect(startSandbox({ ...OPTIONS, host })).rejects.toThrow('only on loopback');
    },
  );

  it('listens beyond loopback with two options, and uses the public host in its URLs', async () => {
    const options = { ...OPTIONS, host: '0.0.0.0', beyondLoopback: true };
    await expect(startSandbox(options)).rejects.toThrow('--public-host');

    const sandbox = await startSandbox({ ...options, publicHost: 'sandbox.internal' });
    expect(new URL(sandbox.issuer).hostname).toBe('sandbox.internal');

    const { port } = new URL(sandbox.issuer);
    const discovery = await fetch(`http://127.0.0.1:${port}/.well-known/openid-configuration`);
    expect(await discovery.json()).toMatchObject({ issuer: sandbox.issuer });

    await sandbox.close();
  });

  it('opens three consecutive ports, or none of them', async () => {
    const port = (await freePort(5)) + 2;
    const sandbox = await startSandbox({ ...OPTIONS, port });
    const ports = [sandbox.issuer, sandbox.platformUrl, sandbox.binServiceUrl].map((url) => Number(new URL(url).port));
    expect(ports).toEqual([port, port + 1, port + 2]);
    await expect(startSandbox({ ...OPTIONS, port: port - 2 })).rejects.toThrow(`Port ${port} is in use`);
    await expect(startSandbox({ ...OPTIONS, port: port - 1 })).rejects.toThrow(
      `Port ${port} is in use. Port ${port + 1} is in use. The sandbox needs`,
    );

    await sandbox.close();
    const blocker = createServer().listen(port + 2, '127.0.0.1');
    await once(blocker, 'listening');
    await expect(startSandbox({ ...OPTIONS, port })).rejects.toThrow(`Port ${port + 2} is in use`);

    const probe = createServer().listen(port, '127.0.0.1');
    await once(probe, 'listening');
    expect((probe.address() as AddressInfo).port).toBe(port);

    await Promise.all([blocker, probe].map((server) => new Promise((resolve) => server.close(resolve))));
  });

  it('handles requests that arrive during the start', async () => {
    const port = (await freePort(5)) + 2;
    const starting = startSandbox({ ...OPTIONS, port });
    const statusOf = async (listenerPort: number) => {
      for (;;) {
        const response = await fetch(`http://127.0.0.1:${listenerPort}/`).catch((error: Error) => error);
        if (!(response instanceof Error)) return response.status;
        // The port is not open yet.
        if (codeOf(response.cause) !== 'ECONNREFUSED') throw response;
      }
    };
    const earlyResponses = [port, port + 1, port + 2].map(statusOf);
    const sandbox = await starting;
    expect(await Promise.all(earlyResponses)).toEqual([200, 404, 200]);

    await sandbox.close();
  });

  it('closes despite hanging requests', async () => {
    const { sandbox } = await startForeignClient();
    sandbox.faults.set({ listener: 'platform', kind: 'drip' });
    const response = await fetch(sandbox.platformUrl);
    await sandbox.close();
    await expect(response.text()).rejects.toThrow();
    await expect(fetch(sandbox.issuer)).rejects.toThrow();
  });
});

describe('node src/sandbox.ts', () => {
  it('prints its URLs without warnings, and stops with status 0 on SIGTERM', async () => {
    const port = (await freePort(5)) + 2;
    const folder = mkdtempSync(join(tmpdir(), 'gatehouse-sandbox-test-'));
    const env = { SANDBOX_PORT: String(port), SANDBOX_BIN_API_KEY: 'the only key', TMPDIR: folder };
    const { child, output, ended } = run(env);
    await expect.poll(output).toContain('Stop it with');
    expect(output()).toMatch(/^The sandbox is ready\./);
    expect(output()).not.toMatch(/warning/i);

    const discovery = await fetch(`http://127.0.0.1:${port}/.well-known/openid-configuration`);
    expect(await discovery.json()).toMatchObject({ issuer: `http://127.0.0.1:${port}` });

    const bin = async (headers = {}) => (await fetch(`http://127.0.0.1:${port + 2}/45717360`, { headers })).status;
    expect(output()).toContain('with the only key');
    expect(await bin()).toBe(200);
    expect(await bin({ authorization: `Basic ${btoa('the only key:')}` })).toBe(200);
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
    'has the BIN lookup service without accounts beyond loopback, and says so: %j',
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

  it('fails with one line if a port is in use', async () => {
    const sandbox = await startSandbox(OPTIONS);
    const second = run({ SANDBOX_PORT: new URL(sandbox.issuer).port });
    expect(await second.ended).toEqual([1, null]);
    expect(second.output()).toMatch(/^Port \d+ is in use\..*SANDBOX_PORT.*\n$/);

    await sandbox.close();
  });

  it('--help lists every setting as an option and as a variable', async () => {
    const help = run({}, '--help');
    expect(await help.ended).toEqual([0, null]);

    const options = createCommand('').options.filter(({ envVar }) => envVar !== undefined);
    expect(options.length).toBeGreaterThan(15);

    const text = help.output().replaceAll(/\s+/g, ' ');
    for (const { long, envVar } of options) {
      expect(text).toContain(` ${long} `);
      expect(text).toMatch(new RegExp(`env: ${envVar}\\)`));
    }
    const secrets = [...readFileSync(MAIN, 'utf8').matchAll(/process\.env\.(\w+)/g)].map(([, name = '']) => name);
    expect(secrets).toContain('SANDBOX_CLIENT_SECRET');

    for (const secret of [...secrets, ADMIN_TOTP_SECRET]) expect(text).toContain(secret);
  });

  it('reports all faults of its settings or seed file at once', async () => {
    const runWithFaults = run(
      { SANDBOX_REFRESH_POLICY: 'never', SANDBOX_PORT: 'first' },
      '--grace-seconds',
      '0',
      '--callback-url',
      'http://x.example/',
    );
    expect(await runWithFaults.ended).toEqual([1, null]);
    expect(
      runWithFaults
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

  it('treats SANDBOX_BEYOND_LOOPBACK=no as loopback only', () => {
    const read = (value: string) => readSettings({ ...createCommand('').opts(), beyondLoopback: value }).settings;
    expect(read('no')?.beyondLoopback).toBe(false);
    expect(read('')?.beyondLoopback).toBeUndefined();
    expect(read('yes')?.beyondLoopback).toBe(true);
  });
});
