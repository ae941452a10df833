/**
 * R90, F7: the operations of an operator, one after the other, on a Redis behind sentinels, while users and services
 * call with TLS through an HAProxy that never retries. `FAULTS=long` takes half an hour, and checks the alerts in
 * Prometheus.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { createAdministrator } from '../gatehouse/relay/service.ts';
import {
  type Fleet,
  type FleetUser,
  LOGINS,
  openSharedStorage,
  type SharedStorage,
  startFleet,
} from '../support/fleet.ts';
import { type Haproxy, missingHaproxy, startHaproxy } from '../support/haproxy.ts';
import { skipIfMissing } from '../support/missing.ts';
import { runCommandProcess } from '../support/program.ts';
import { missingPrometheus, type Prometheus, startPrometheus } from '../support/prometheus.ts';
import { missingRedis, type RedisServer, type SentinelSet, startSentinelSet } from '../support/redis-server.ts';
import { selfSigned } from '../support/self-signed.ts';
import {
  ACCEPT_JSON,
  JSON_BODY,
  type ReceivedResponse,
  type RequestDetails,
  sendRequest,
} from '../support/send-request.ts';
import { until } from '../support/until.ts';

const LONG = process.env.FAULTS === 'long';
/** Between the starts of two steps. */
const STEP_MILLISECONDS = LONG ? 300_000 : 3_000;
/** Longer than the `for` of the alert about a lost storage. */
const OUTAGE_MILLISECONDS = 120_000;
const MAX_FAILOVER_MILLISECONDS = 10_000;
const NAME = 'gatehouse.test';
const RULES = join(import.meta.dirname, '..', '..', 'docs', 'alerts.yml');
const missing = missingHaproxy ?? missingRedis ?? (LONG ? missingPrometheus : undefined);

let directory: string;
let sentinels: SentinelSet;
let fleet: Fleet;
let haproxy: Haproxy;
let prometheus: Prometheus | undefined;
let users: FleetUser[];
let relayToken: string;
let storageWithNewKeys: SharedStorage | undefined;
const certificates = [selfSigned(NAME), selfSigned(NAME, undefined, 'renewed')] as const;

beforeAll(async () => {
  if (missing) return;
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-operations-'));
  sentinels = await startSentinelSet();
  fleet = await startFleet({
    kind: 'Redis',
    processes: 2,
    otherRedis: {
      REDIS_SENTINELS: sentinels.addresses,
      REDIS_SENTINEL_NAME: sentinels.name,
      REDIS_DURABILITY: 'replicas',
    },
    // The check of an app sends an invalid code, whose refusal would count among those of refresh tokens.
    env: { TRUSTED_PROXIES: '127.0.0.1', SHUTDOWN_DELAY_SECONDS: '5', CONNECTION_CHECK_SECONDS: '0' },
  });
  fleet.tokenEndpoint.lifetimeSeconds = 5;
  users = [];
  for (const login of LOGINS) users.push(await fleet.signIn(login));
  const administrator = await createAdministrator(fleet, fleet.storage);
  ({ token: relayToken } = await administrator.createRelayToken({ assertUser: true }));
  // From the restart on, the keys are in a file.
  useKeys(fleet.env.ENCRYPTION_KEYS ?? '');
  for (const member of fleet.members) {
    delete member.env.ENCRYPTION_KEYS;
    member.env.ENCRYPTION_KEYS_FILE = keysFile();
  }
  const servers = fleet.members.map(({ env }) => ({
    port: Number(env.PORT),
    managementPort: Number(env.MANAGEMENT_PORT),
  }));
  haproxy = await startHaproxy(servers, certificates[0]);
  for (const index of fleet.members.keys()) await untilSeen(index, 'UP');
  if (LONG)
    prometheus = await startPrometheus(
      servers.map(({ managementPort }) => `http://127.0.0.1:${managementPort}`),
      [RULES],
    );
});
afterAll(async () => {
  await storageWithNewKeys?.store.close();
  await prometheus?.close();
  await haproxy?.stop();
  await fleet?.close();
  await sentinels?.dispose();
  if (directory) rmSync(directory, { recursive: true, force: true });
});

const keysFile = () => join(directory, 'keys');
const useKeys = (keys: string) => writeFileSync(keysFile(), keys, { mode: 0o600 });
const untilSeen = (index: number, ...states: string[]) =>
  until(async () => states.includes(await haproxy.statusOf('https', index)));

/** Runs a command, which reads its settings from the environment. */
async function runOperatorCommand(...args: string[]): Promise<void> {
  const { status, stderr } = await runCommandProcess(args, { ...fleet.member(0).env });
  expect([args.join(' '), status, stderr.includes('cannot be done')]).toEqual([args.join(' '), 0, false]);
}

interface Call {
  method: string;
  path: string;
  headers?: (user: FleetUser) => Record<string, string>;
  body?: string;
  isExpected?: (response: ReceivedResponse, user: FleetUser) => boolean;
}

const CALLS: readonly Call[] = [
  { method: 'GET', path: '/threads/current' },
  { method: 'GET', path: '/session', isExpected: ({ body }, { userId }) => body.includes(userId) },
  {
    method: 'POST',
    path: '/bin',
    body: JSON.stringify({ bins: ['45717360'] }),
    headers: ({ csrfToken }) => ({ ...JSON_BODY, 'x-csrf-token': csrfToken }),
  },
  {
    method: 'GET',
    path: '/relay/threads/current',
    headers: ({ userId }) => ({
      authorization: `Bearer ${relayToken}`,
      'gatehouse-user': userId,
      'gatehouse-app': 'platform',
      cookie: '',
    }),
  },
];

/** The pause between two calls of a caller. Each call has its own connection. */
const PAUSE_MILLISECONDS = 20;

function startLoad() {
  const failures: { at: number; description: string; status: number }[] = [];
  let served = 0;
  let isStopped = false;
  const callOnce = async (user: FleetUser, { method, path, headers, body, isExpected }: Call): Promise<void> => {
    const request: RequestDetails = {
      method,
      headers: { ...ACCEPT_JSON, host: new URL(fleet.url).host, cookie: user.cookie, ...headers?.(user) },
      tls: { ca: certificates.map(({ cert }) => cert), servername: NAME },
      ...(body !== undefined && { body }),
    };
    const response = await sendRequest(haproxy.urls.https + path, request).catch(({ message }: Error) => message);
    const hasStatus200 = typeof response !== 'string' && response.status === 200;
    if (hasStatus200 && (isExpected?.(response, user) ?? true)) {
      served += 1;
    } else {
      const status = typeof response === 'string' ? 0 : response.status;
      const text = typeof response === 'string' ? response : response.body;
      failures.push({
        at: performance.now(),
        description: `${method} ${path}: ${status} ${text.slice(0, 200)}`,
        status,
      });
    }
  };
  const callers = users.map(async (user) => {
    for (let turn = 0; !isStopped; turn += 1) {
      const call = CALLS[turn % CALLS.length];
      if (call) await callOnce(user, call);
      await sleep(PAUSE_MILLISECONDS);
    }
  });
  return {
    /** The failures since the last call of this function. */
    takeFailures: () => failures.splice(0),
    served: () => served,
    async stop(): Promise<void> {
      isStopped = true;
      await Promise.all(callers);
    },
  };
}

async function restart(): Promise<void> {
  for (const [index, member] of fleet.members.entries()) {
    member.signal('SIGTERM');
    expect(await member.program.ended).toEqual({ status: 0, signal: null });
    await untilSeen(index, 'DOWN');
    await member.start();
    await untilSeen(index, 'UP');
  }
}

/** Makes every process reload its keys. */
async function reload(keys: string): Promise<void> {
  const reloads = () => fleet.output().split('"event":"settings.reloaded"').length;
  const reloadsBefore = reloads();
  useKeys(keys);
  for (const { signal } of fleet.members) signal('SIGHUP');
  await until(() => reloads() >= reloadsBefore + fleet.members.length);
}

async function rotateKeys(): Promise<void> {
  const current = fleet.env.ENCRYPTION_KEYS ?? '';
  const next = generateEncryptionKey(new Date());
  await reload(`${current},${next}`);
  await reload(`${next},${current}`);
  await runOperatorCommand('keys', 'rotate');
  await reload(next);
  storageWithNewKeys = await openSharedStorage({ ...fleet.env, ENCRYPTION_KEYS: next });
}

async function changeCertificate(): Promise<void> {
  haproxy.reload(certificates[1]);
  const isNew = () =>
    sendRequest(`${haproxy.urls.https}/healthz`, { tls: { ca: [certificates[1].cert], servername: NAME } }).then(
      () => true,
      () => false,
    );
  await until(isNew);
}

const isMaster = (server: Pick<RedisServer, 'sendCommand'>) =>
  server.sendCommand('INFO', 'replication').includes('role:master');

/** Kills the master, and expects that calls are refused only until another server has taken over. */
async function expectShortFailover(load: ReturnType<typeof startLoad>): Promise<void> {
  const master = sentinels.servers.find(isMaster);
  const startedAt = performance.now();
  await master?.kill();
  await until(() => sentinels.servers.some((server) => server !== master && isMaster(server)));
  const servedBefore = load.served();
  await until(() => load.served() > servedBefore + 2 * CALLS.length * users.length);
  await master?.start();
  await sleep(STEP_MILLISECONDS);
  const failures = load.takeFailures().map(({ at, ...rest }) => ({ ...rest, after: at - startedAt }));
  const isRefusal = ({ status, after }: (typeof failures)[number]) =>
    status === 503 && after < MAX_FAILOVER_MILLISECONDS;
  expect(failures.filter((failure) => !isRefusal(failure))).toEqual([]);
}

test('a restart, new keys, a backup and a new certificate lose no request; a failover refuses calls for 10 s at most', {
  timeout: 7_200_000,
}, async (context) => {
  skipIfMissing(context, missing);
  const load = startLoad();
  const steps = [restart, rotateKeys, () => runOperatorCommand('backup', join(directory, 'backup')), changeCertificate];
  try {
    for (const step of steps) {
      const startedAt = performance.now();
      const servedBefore = load.served();
      await step();
      await sleep(Math.max(0, STEP_MILLISECONDS - (performance.now() - startedAt)));
      expect([step.name, load.takeFailures()]).toEqual([step.name, []]);
      expect(load.served()).toBeGreaterThan(servedBefore + 10);
    }
    await expectShortFailover(load);
  } finally {
    await load.stop();
  }
  await fleet.tokenEndpoint.untilIdle();
  expect(fleet.tokenEndpoint.refusalCount()).toBe(0);

  for (const { userId } of users) {
    const { refreshToken } = (await storageWithNewKeys?.readGrant(userId)) ?? {};
    expect(refreshToken).toBe(fleet.tokenEndpoint.latestOf(userId)?.refreshToken);
  }
  if (prometheus) await expectAlerts(prometheus);
});

/** Expects no alert so far, and exactly that of a lost storage once the storage is down for longer than a failover. */
async function expectAlerts({ query }: Prometheus): Promise<void> {
  const fired = async () => {
    const alerts = await query('max_over_time(ALERTS{alertstate="firing"}[2h])');
    return [...new Set(alerts.map(({ metric }) => metric.alertname))].toSorted();
  };
  expect(await fired()).toEqual([]);
  await Promise.all(sentinels.servers.map((server) => server.kill()));
  await sleep(OUTAGE_MILLISECONDS);
  expect(await fired()).toEqual(['GatehouseStorageLost']);
}
