/** Starts with a Redis that uses a private authority, client certificates, or sentinels with a password. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { generateEncryptionKey } from '../../../../src/shared/storage/key-ring.ts';
import { createAuthority, type SignedFiles } from '../../../support/authority.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { freePort } from '../../../support/ports.ts';
import { runServer, startProgram } from '../../../support/program.ts';
import { missingRedis, type RedisServer, startRedis, startSentinel } from '../../../support/redis-server.ts';
import { refusalOf } from '../../../support/refusal.ts';

const PASSWORD = 'a-password-that-is-shown-nowhere';
const SERVER = join(import.meta.dirname, '../../../../src/server.ts');
const ENCRYPTION_KEYS = generateEncryptionKey(new Date());

let authority: ReturnType<typeof createAuthority>;
let otherAuthority: ReturnType<typeof createAuthority>;
let client: SignedFiles;
let foreignClient: SignedFiles;
let server: RedisServer;
let sentinel: RedisServer;
let [tlsPort, sentinelTlsPort] = [0, 0];

beforeAll(async () => {
  [authority, otherAuthority] = [createAuthority(), createAuthority('Another authority')];
  client = authority.sign('gatehouse', 'client');
  foreignClient = otherAuthority.sign('gatehouse', 'foreignClient');
  if (missingRedis) return;
  const serverCertificate = authority.sign('localhost');
  [tlsPort, sentinelTlsPort] = [await freePort(), await freePort()];
  const tls = [
    '--tls-cert-file',
    serverCertificate.cert,
    '--tls-key-file',
    serverCertificate.key,
    '--tls-ca-cert-file',
    authority.file,
  ];
  server = await startRedis(['--tls-port', String(tlsPort), ...tls, '--tls-auth-clients', 'yes']);
  sentinel = await startSentinel('gatehouse', server.port);
  await sentinel.kill();
  await sentinel.start(['--tls-port', String(sentinelTlsPort), ...tls, '--tls-auth-clients', 'no']);
  sentinel.sendCommand('ACL', 'SETUSER', 'gatehouse', 'on', `>${PASSWORD}`, 'allchannels', '+@all');
  sentinel.sendCommand('ACL', 'SETUSER', 'default', 'resetpass', `>${PASSWORD}`);
});
afterAll(async () => {
  for (const redis of [sentinel, server]) await redis?.dispose();
  for (const issuer of [authority, otherAuthority]) issuer.dispose();
});
beforeEach((context) => skipIfMissing(context, missingRedis));

const settings = async (env: Record<string, string>) => ({
  PUBLIC_URL: 'http://127.0.0.1:3000',
  SESSION_SECRETS: 'q8Zr1vT6yLw3Xn5Kd7Pm9Bc2Hf4Jg0Sa',
  ENCRYPTION_KEYS,
  REDIS_DURABILITY: 'none',
  PORT: String(await freePort()),
  MANAGEMENT_PORT: String(await freePort()),
  ...env,
});

const overTls = () => ({
  REDIS_URL: `rediss://localhost:${tlsPort}`,
  CA_FILE: authority.file,
  REDIS_CERT_FILE: client.cert,
  REDIS_KEY_FILE: client.key,
});
const behindSentinel = (scheme = '') => ({
  REDIS_SENTINELS: scheme === '' ? `127.0.0.1:${sentinel.port}` : `${scheme}localhost:${sentinelTlsPort}`,
  REDIS_SENTINEL_NAME: 'gatehouse',
  REDIS_SENTINEL_PASSWORD: PASSWORD,
});

/** Starts with the settings in `.env`. */
async function startWith(env: Record<string, string>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-trust-'));
  const lines = Object.entries(await settings(env)).map(([name, value]) => `${name}=${value}\n`);
  writeFileSync(join(folder, '.env'), lines.join(''));
  const program = startProgram(['node', SERVER], {}, folder);
  try {
    await program.printed('Gatehouse is ready');
  } finally {
    program.signal('SIGTERM');
    await program.ended;
    rmSync(folder, { recursive: true, force: true });
  }
  expect(program.stdout() + program.stderr()).not.toContain(PASSWORD);
}

test('CA_FILE, REDIS_CERT_FILE and REDIS_KEY_FILE in .env connect to a Redis that requires client certificates', () =>
  startWith(overTls()));

test('sentinels get their own password, and a user name if one is set', async () => {
  await startWith(behindSentinel());
  await startWith({ ...behindSentinel(), REDIS_SENTINEL_USERNAME: 'gatehouse' });
});

describe.concurrent('a start is refused', () => {
  test('with another authority and a second error on the connection, which does not end the process', async ({
    onTestFinished,
  }) => {
    const proxy = createServer((socket) => {
      const upstream = connect(tlsPort, '127.0.0.1');
      socket.pipe(upstream);
      upstream.on('data', (bytes) => {
        socket.write(bytes);
        // Sends bytes that are not TLS after the certificate.
        if (bytes.length > 500) socket.write('x'.repeat(64));
      });
      for (const stream of [socket, upstream]) stream.on('error', () => {}).on('close', () => socket.destroy());
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void proxy.close());
    await once(proxy, 'listening');
    const { port } = proxy.address() as AddressInfo;
    const env = { ...overTls(), CA_FILE: otherAuthority.file, REDIS_URL: `rediss://localhost:${port}` };
    const { status, stderr } = await runServer(await settings(env));
    expect([status, stderr]).toEqual([78, expect.stringMatching(/has a certificate from an unknown authority/)]);
  });

  // Each case runs in a separate process, because CA_FILE changes the authorities of the whole process.
  test.for<[string, () => Record<string, string>, RegExp]>([
    [
      'with another authority',
      () => ({ ...overTls(), CA_FILE: otherAuthority.file }),
      /\(REDIS_URL\) has a certificate from an unknown authority \(\w+\)\. .*CA_FILE/,
    ],
    [
      'with a host name that the certificate lacks',
      () => ({ ...overTls(), REDIS_URL: `rediss://127.0.0.1:${tlsPort}` }),
      /127\.0\.0\.1:\d+ \(REDIS_URL\) has a certificate for another name .*host name/,
    ],
    [
      'without a client certificate',
      () => ({ ...overTls(), REDIS_CERT_FILE: '', REDIS_KEY_FILE: '' }),
      /\(REDIS_URL\) requires a client certificate.*REDIS_CERT_FILE and REDIS_KEY_FILE/,
    ],
    [
      'with a client certificate of another authority',
      () => ({ ...overTls(), REDIS_CERT_FILE: foreignClient.cert, REDIS_KEY_FILE: foreignClient.key }),
      /\(REDIS_URL\) refuses TLS with this client certificate .*REDIS_CERT_FILE/,
    ],
  ])('%s, with what mends it', async ([, env, words]) => {
    const { status, stdout, stderr } = await runServer(await settings(env()));
    expect([status, stderr]).toEqual([78, expect.stringMatching(words)]);
    expect(stdout + stderr).not.toContain(PASSWORD);
  });

  test.for<[string, () => Record<string, string>, RegExp]>([
    [
      'without CA_FILE',
      () => ({ ...overTls(), CA_FILE: '' }),
      /localhost:\d+ \(REDIS_URL\) has a certificate from an unknown authority \(\w+\)\. .*CA_FILE/,
    ],
    [
      'without the password of the sentinels',
      () => ({ ...behindSentinel(), REDIS_SENTINEL_PASSWORD: '' }),
      /\(REDIS_SENTINELS\) refuses .*NOAUTH.*REDIS_SENTINEL_PASSWORD/,
    ],
    [
      'with a wrong password of the sentinels',
      () => ({ ...behindSentinel(), REDIS_SENTINEL_PASSWORD: `${PASSWORD}-wrong` }),
      /REDIS_SENTINELS\) refuses .*WRONGPASS.*REDIS_SENTINEL_PASSWORD/,
    ],
    [
      'with a sentinel whose authority is unknown',
      () => behindSentinel('rediss://'),
      /localhost:\d+ \(REDIS_SENTINELS\) has a certificate from an unknown authority \(\w+\)\. .*CA_FILE/,
    ],
  ])('%s, with what mends it', async ([, env, words]) => {
    const refusal = await refusalOf(await settings(env()));
    expect(refusal).toMatch(words);
    expect(refusal).not.toContain(PASSWORD);
  });
});
