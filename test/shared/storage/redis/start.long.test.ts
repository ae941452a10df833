/** A start reports an unusable Redis with host, port, setting and cause, and never with the password. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generateEncryptionKey } from '../../../../src/shared/storage/key-ring.ts';
import { isUnprotected } from '../../../../src/shared/storage/storage.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { freePort } from '../../../support/ports.ts';
import { runServer } from '../../../support/program.ts';
import { createDocumentedUser, createSentinelUser } from '../../../support/redis-acl.ts';
import { missingRedis, type RedisServer, startRedis, startSentinel } from '../../../support/redis-server.ts';
import { failureOf } from '../../../support/refusal.ts';

const PASSWORD = 'a-password-that-is-shown-nowhere';
const SECRETS = 'q8Zr1vT6yLw3Xn5Kd7Pm9Bc2Hf4Jg0Sa';
const EX_CONFIG = 78;

let directory: string;
let unprotectedRedis: RedisServer;
let protectedRedis: RedisServer;
let clusterNode: RedisServer;
let sentinel: RedisServer;
let replica: RedisServer;
let tlsPort: number;
let closedPort: number;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-redis-start-'));
  if (missingRedis) return;
  [tlsPort, closedPort] = [await freePort(), await freePort()];
  const [key, certificate] = [join(directory, 'key.pem'), join(directory, 'certificate.pem')];
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
  const tls = ['--tls-port', String(tlsPort), '--tls-cert-file', certificate, '--tls-key-file', key];
  unprotectedRedis = await startRedis();
  protectedRedis = await startRedis([...tls, '--tls-auth-clients', 'no']);
  protectedRedis.sendCommand('CONFIG', 'SET', 'requirepass', PASSWORD);
  clusterNode = await startRedis(['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())]);
  sentinel = await startSentinel('gatehouse', unprotectedRedis.port);
  replica = await startRedis(['--replicaof', '127.0.0.1', String(unprotectedRedis.port)]);
});
afterAll(async () => {
  for (const server of [unprotectedRedis, protectedRedis, clusterNode, sentinel, replica]) await server?.dispose();
  rmSync(directory, { recursive: true });
});

const settings = (env: Record<string, string>) => ({
  PUBLIC_URL: 'http://127.0.0.1:3000',
  SESSION_SECRETS: SECRETS,
  ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
  ...env,
});

// The tests are concurrent, because each start tries for several seconds.
describe.concurrent('a start', () => {
  const cases: [string, number, () => Record<string, string>, RegExp][] = [
    [
      'with a wrong password',
      EX_CONFIG,
      () => ({ REDIS_URL: `redis://:${PASSWORD}-wrong@127.0.0.1:${protectedRedis.port}` }),
      /127\.0\.0\.1:\d+ \(REDIS_URL\) refuses the user or the password \(WRONGPASS\)/,
    ],
    [
      'without a password',
      EX_CONFIG,
      () => ({ REDIS_URL: `redis://127.0.0.1:${protectedRedis.port}` }),
      /\(REDIS_URL\) refuses the user or the password \(NOAUTH\)/,
    ],
    [
      'on a cluster without a password',
      EX_CONFIG,
      () => ({ REDIS_CLUSTER: `127.0.0.1:${protectedRedis.port}` }),
      /\(REDIS_CLUSTER\) refuses the user or the password \(NOAUTH\)/,
    ],
    [
      'as a user without a command',
      EX_CONFIG,
      () => ({ REDIS_URL: createDocumentedUser(unprotectedRedis, '-zadd') }),
      /does not allow its user the command ZADD \(ACL \+zadd\)\. It says: NOPERM .*'zadd'/,
    ],
    [
      'on a cluster as a user without CLUSTER INFO',
      EX_CONFIG,
      () => ({ REDIS_CLUSTER: createDocumentedUser(clusterNode, '-cluster|info') }),
      /\(REDIS_CLUSTER\) does not allow its user the command CLUSTER INFO \(ACL \+cluster\|info\)/,
    ],
    [
      'behind sentinels as a user of them without their command',
      EX_CONFIG,
      () => {
        const { username, password } = createSentinelUser(sentinel, '-sentinel|get-master-addr-by-name');
        const user = { REDIS_SENTINEL_USERNAME: username, REDIS_SENTINEL_PASSWORD: password };
        return { REDIS_SENTINELS: `127.0.0.1:${sentinel.port}`, REDIS_SENTINEL_NAME: 'gatehouse', ...user };
      },
      /the user in REDIS_SENTINEL_USERNAME the command SENTINEL GET-MASTER-ADDR-BY-NAME \(ACL \+sentinel\|get-master-addr-by-name\)/,
    ],
    [
      'with a certificate of an unknown CA',
      EX_CONFIG,
      () => ({ REDIS_URL: `rediss://:${PASSWORD}@localhost:${tlsPort}` }),
      /localhost:\d+ \(REDIS_URL\) has a certificate from an unknown authority \(DEPTH_ZERO_SELF_SIGNED_CERT\).*CA_FILE/,
    ],
    [
      'without TLS at a TLS port',
      EX_CONFIG,
      () => ({ REDIS_URL: `redis://:${PASSWORD}@127.0.0.1:${tlsPort}` }),
      /\(REDIS_URL\) speaks TLS\. Write rediss:/,
    ],
    [
      'with TLS at a port without it',
      EX_CONFIG,
      () => ({ REDIS_URL: `rediss://127.0.0.1:${unprotectedRedis.port}` }),
      /\(REDIS_URL\) does not speak TLS\. Write redis:/,
    ],
    [
      'with a single server as a cluster',
      EX_CONFIG,
      () => ({ REDIS_CLUSTER: `127.0.0.1:${unprotectedRedis.port}` }),
      /\(REDIS_CLUSTER\) is not a cluster\. Set REDIS_URL/,
    ],
    [
      'with a node of a cluster as a single server',
      EX_CONFIG,
      () => ({ REDIS_URL: `redis://127.0.0.1:${clusterNode.port}` }),
      /is a node of a cluster\. Set REDIS_CLUSTER/,
    ],
    [
      'with a sentinel as a single server',
      EX_CONFIG,
      () => ({ REDIS_URL: `redis://127.0.0.1:${sentinel.port}` }),
      /is a sentinel\. Set REDIS_SENTINELS/,
    ],
    [
      'R127 with a replica as a single server',
      EX_CONFIG,
      () => ({ REDIS_URL: `redis://127.0.0.1:${replica.port}` }),
      /is a replica, which accepts no writes\. Name its master in REDIS_URL: 127\.0\.0\.1:\d+\./,
    ],
    [
      'R127 with a database that Redis does not have',
      EX_CONFIG,
      () => ({ REDIS_URL: `redis://127.0.0.1:${unprotectedRedis.port}/99` }),
      /\(REDIS_URL\) has no database with that number\. Correct REDIS_URL/,
    ],
    [
      'with the wrong name of the master',
      EX_CONFIG,
      () => ({ REDIS_SENTINELS: `127.0.0.1:${sentinel.port}`, REDIS_SENTINEL_NAME: 'other' }),
      /\(REDIS_SENTINELS\) has no master with that name\. Correct REDIS_SENTINEL_NAME/,
    ],
    [
      'with a server as a sentinel',
      EX_CONFIG,
      () => ({ REDIS_SENTINELS: `127.0.0.1:${unprotectedRedis.port}`, REDIS_SENTINEL_NAME: 'gatehouse' }),
      /\(REDIS_SENTINELS\) is not a sentinel/,
    ],
    [
      'where nothing listens',
      1,
      () => ({ REDIS_URL: `redis://:${PASSWORD}@127.0.0.1:${closedPort}` }),
      /127\.0\.0\.1:\d+ \(REDIS_URL\) cannot be reached: ECONNREFUSED/,
    ],
    [
      'with a host that DNS does not know',
      1,
      () => ({ REDIS_URL: 'redis://no-such-host.invalid:6390' }),
      /no-such-host\.invalid:6390 \(REDIS_URL\) cannot be reached: (ENOTFOUND|EAI_AGAIN)/,
    ],
  ];

  // An abandoned TLS connection may report an alert later, which could end a process that keeps running.
  const mayEndItsProcess = ([name]: (typeof cases)[number]) => /TLS|CA/.test(name);

  test.for(cases.filter((row) => !mayEndItsProcess(row)))(
    '%s is refused with status %i and its reason',
    async ([, status, env, message], context) => {
      skipIfMissing(context, missingRedis);
      let failure = await failureOf(settings(env()));
      // On a starved machine, the response of Redis may take longer than the five seconds of a start.
      while (failure.text.includes('no response')) failure = await failureOf(settings(env()));
      const { isRefusal, text } = failure;
      expect([isRefusal ? EX_CONFIG : 1, text]).toEqual([status, expect.stringMatching(message)]);
      expect(text).not.toContain(PASSWORD);
    },
  );

  const oneOfEach = [EX_CONFIG, 1].flatMap((code) => cases.filter(([, status]) => status === code).slice(0, 1));
  test.for([...oneOfEach, ...cases.filter(mayEndItsProcess)])(
    '%s ends its process with %i and reports the same',
    async ([, status, env, message], context) => {
      skipIfMissing(context, missingRedis);
      const ports = { PORT: String(await freePort()), MANAGEMENT_PORT: String(await freePort()) };
      const result = await runServer({ ...settings(env()), ...ports });
      expect([result.status, result.stderr]).toEqual([status, expect.stringMatching(message)]);
      expect(result.stdout + result.stderr).not.toContain(PASSWORD);
    },
  );
});

test.each([
  ['redis://127.0.0.1:6379', false],
  ['redis://localhost', false],
  ['rediss://redis.example.com', false],
  ['redis://redis.example.com', true],
])('%s is a network connection without TLS: %s', (url, expected) => {
  const redis = { url, durability: 'aof', deadlineMilliseconds: 2_000 } as const;
  expect(isUnprotected({ redis })).toBe(expected);
});
