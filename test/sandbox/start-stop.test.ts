/** The sandbox starts on loopback, says what is wrong if it cannot, and stops clean. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { startForeignClient } from './foreign-client.ts';

const parts = { clients: [], binService: (_req: unknown, res: { end(): unknown }) => void res.end() };
const MAIN = fileURLToPath(new URL('../../src/sandbox/main.ts', import.meta.url));

/** A port that was free with the two after it a moment ago. */
async function freePort(): Promise<number> {
  for (let port = 20_000 + (process.pid % 20_000); ; port += 3) {
    const sandbox = await startSandbox({ ...parts, port }).catch(() => undefined);
    await sandbox?.close();
    if (sandbox) return port;
  }
}

function run(env: Record<string, string>, ...args: string[]) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { ...process.env, ...env } });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
  return { child, output: () => output, ended: once(child, 'exit') };
}

describe('starting and stopping', () => {
  it.each(['0.0.0.0', '192.0.2.1', '::', 'example.com', '127.0.0.1.example.com'])(
    'refuses to listen on %s',
    async (host) => {
      await expect(startSandbox({ ...parts, host })).rejects.toThrow('loopback only');
    },
  );

  it('takes three ports in a row, and all or none of them', async () => {
    const port = await freePort();
    const sandbox = await startSandbox({ ...parts, port });
    const ports = [sandbox.issuer, sandbox.platformUrl, sandbox.binServiceUrl].map((url) => Number(new URL(url).port));
    expect(ports).toEqual([port, port + 1, port + 2]);
    await expect(startSandbox({ ...parts, port: port - 2 })).rejects.toThrow(`Port ${port} is taken`);
    await sandbox.close();
    const blocker = createServer().listen(port + 2, '127.0.0.1');
    await once(blocker, 'listening');
    await expect(startSandbox({ ...parts, port })).rejects.toThrow(`Port ${port + 2} is taken`);
    const probe = createServer().listen(port, '127.0.0.1');
    await once(probe, 'listening');
    expect((probe.address() as AddressInfo).port).toBe(port);
    await Promise.all([blocker, probe].map((server) => new Promise((resolve) => server.close(resolve))));
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

describe('node src/sandbox/main.ts', () => {
  it('says where everything is, without warnings, and stops with status 0 on SIGTERM', async () => {
    const port = await freePort();
    const { child, output, ended } = run({ SANDBOX_PORT: String(port) });
    await expect.poll(output, { timeout: 10_000 }).toContain('Stop it with');
    expect(output()).toMatch(/^The sandbox is ready\./);
    expect(output()).not.toMatch(/warning/i);
    const discovery = await fetch(`http://127.0.0.1:${port}/.well-known/openid-configuration`);
    expect(await discovery.json()).toMatchObject({ issuer: `http://127.0.0.1:${port}` });
    expect((await fetch(`http://127.0.0.1:${port + 2}/45717360`)).status).toBe(200);
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });

  it('fails with one sentence when a port is taken or the setting is wrong', async () => {
    const sandbox = await startSandbox(parts);
    const taken = run({ SANDBOX_PORT: new URL(sandbox.issuer).port });
    expect(await taken.ended).toEqual([1, null]);
    expect(taken.output()).toMatch(/^Port \d+ is taken\..*SANDBOX_PORT.*\n$/);
    await sandbox.close();
    const wrong = run({ SANDBOX_PORT: 'first' });
    expect(await wrong.ended).toEqual([1, null]);
    expect(wrong.output()).toMatch(/^SANDBOX_PORT must be/);
  });

  it('explains its settings', async () => {
    const help = run({}, '--help');
    expect(await help.ended).toEqual([0, null]);
    expect(help.output()).toContain('SANDBOX_CLIENT_SECRET');
  });
});
