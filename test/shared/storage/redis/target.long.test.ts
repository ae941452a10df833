/** Settings of Redis: addresses, credentials and certificates. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { createRedisStore } from '../../../../src/shared/storage/redis/store.ts';
import { type RedisTarget, readTarget } from '../../../../src/shared/storage/redis/target.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { freePort } from '../../../support/ports.ts';
import { missingRedis, startRedis } from '../../../support/redis-server.ts';

test('a URL contains host, port, database, credentials and whether to use TLS', () => {
  expect(readTarget({ url: 'rediss://us%40er:p%3Aw@redis.example:6380/2' })).toEqual({
    kind: 'single',
    addresses: [{ host: 'redis.example', port: 6380 }],
    credentials: { username: 'us@er', password: 'p:w', tls: {} },
    database: 2,
  });
  expect(readTarget({ url: 'redis://[::1]' })).toMatchObject({ addresses: [{ host: '::1', port: 6379 }], database: 0 });
});

test('lists are separated by commas, and the first entry has the credentials for all servers', () => {
  expect(readTarget({ cluster: 'a:7000, b:7001,c' })).toEqual({
    kind: 'cluster',
    addresses: [
      { host: 'a', port: 7000 },
      { host: 'b', port: 7001 },
      { host: 'c', port: 6379 },
    ],
    credentials: {},
    database: 0,
  });
  expect(
    readTarget({
      sentinels: 'redis://:secret@a,b:5',
      sentinelName: 'main',
      sentinelCredentials: { password: 'other' },
    }),
  ).toEqual({
    kind: 'sentinel',
    addresses: [
      { host: 'a', port: 26379 },
      { host: 'b', port: 5 },
    ],
    credentials: { password: 'secret' },
    database: 0,
    sentinelName: 'main',
    sentinelCredentials: { password: 'other' },
  });
});

test.each<RedisTarget>([
  { url: 'http://user:secret@host' },
  { url: 'redis://user:secret@' },
  { url: 'redis://user:secret@host/name' },
  { cluster: ' , ' },
  { cluster: 'secret:x' },
])('a malformed address is refused and not repeated (%#)', (target) => {
  expect(() => readTarget(target)).toThrow(TypeError);
  expect(() => readTarget(target)).not.toThrow(/secret/);
});

test('rediss:// uses TLS and the credentials of the URL', async (context) => {
  skipIfMissing(context, missingRedis);
  const tlsPort = await freePort();
  const server = await startRedis(['--user', 'default', 'on', 'nopass', '-@all', '+ping']);
  onTestFinished(() => server.dispose());
  const key = join(server.directory, 'key.pem');
  const certificate = join(server.directory, 'certificate.pem');
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-days', '2'];
  const opensslArguments = [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-keyout',
    key,
    '-out',
    certificate,
    ...subject,
  ];
  execFileSync('openssl', opensslArguments, { stdio: 'pipe' });
  await server.kill();
  const tls = ['--tls-port', String(tlsPort), '--tls-cert-file', certificate, '--tls-key-file', key];
  await server.start([...tls, '--tls-auth-clients', 'no', '--user', 'app', 'on', '>pa:ss', '~*', '&*', '+@all']);
  setDefaultCACertificates([...getCACertificates(), readFileSync(certificate, 'utf8')]);

  const url = `rediss://app:pa%3Ass@localhost:${tlsPort}`;
  const store = await createRedisStore({ url, durability: 'none' });
  onTestFinished(() => store.close());
  expect(await store.write([{ put: 'a', value: '1' }])).toBeDefined();
  await expect(store.ready()).resolves.toBeUndefined();

  const wrong = createRedisStore({ url: url.replace('ss@', 'xx@'), durability: 'none' });
  await expect(wrong).rejects.toMatchObject({ name: 'StorageRefused', cause: { message: /^WRONGPASS/ } });
});
