/** The main benchmark: an authenticated GET of a thread through Gatehouse, its peers, and a bare proxy. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createAdministrator } from '../gatehouse/relay/service.ts';
import { openSharedStorage } from '../support/fleet.ts';
import { missingRedis, type RedisServer } from '../support/redis-server.ts';
import { APACHE_PEERS, apacheIsInstalled, startApache } from './apache.ts';
import { chart } from './chart.ts';
import { isExpected, openConnection, type PreparedRequest, prepareRequest } from './connection.ts';
import { type Contestant, contest } from './contest.ts';
import { type Effort, print } from './effort.ts';
import { type Finding, formatFindings } from './findings.ts';
import { LIBRARY_PEER, PEERS, type Peer, type PeerName, peersAreInstalled, startPeer } from './peers.ts';
import { startProcess } from './process.ts';
import {
  type Address,
  type Platform,
  reserveAddress,
  type Site,
  type Storage,
  signIn,
  startGatehouse,
  startIdentityProvider,
  startPlatform,
  withAll,
} from './site.ts';
import { type StorageCost, storageCost } from './storage-cost.ts';
import { type Summary, table } from './table.ts';
import { threadOf } from './upstream.ts';

const PICTURE = join(import.meta.dirname, '../../docs/bench.svg');
export const BARE = 'bare node:http + undici';
const CONCURRENCIES = [32, 256];
/** A declared route, which Express serves. */
const declaredCall = (storage: string) => `/api/platform/…, ${storage}`;
/** Minimum ratio to the bare proxy, at each concurrency. */
const TARGETS: Record<string, number> = {
  '/threads/current, embedded': 0.65,
  '/threads/current, Redis': 0.6,
  '/relay/threads/current, embedded': 0.6,
  '/relay/threads/current, Redis': 0.55,
};

interface Runner extends Contestant {
  redis?: RedisServer | undefined;
  request: PreparedRequest;
}

export function benchThreads(effort: Effort): Promise<Finding[]> {
  return withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const storages: Storage[] = missingRedis === undefined ? ['embedded', 'Redis'] : ['embedded'];
    const peers = peersAreInstalled() && missingRedis === undefined ? (Object.keys(PEERS) as PeerName[]) : [];
    const apaches = apacheIsInstalled() && missingRedis === undefined ? APACHE_PEERS : [];
    const addresses = await Promise.all([...storages, ...peers, ...apaches].map(reserveAddress));
    const provider = keep(await startIdentityProvider(addresses));
    const nextParts = () => ({
      issuer: provider.issuer,
      platformUrl: platform.url,
      address: takeAddress(addresses),
    });
    const runners = [await startBareProxy(platform, keep)];
    for (const storage of storages) {
      const site = keep(await startGatehouse({ ...nextParts(), storage }));
      runners.push(...(await runnersOf(site, storage)));
    }
    const addPeer = async (peer: Peer, path?: string) => {
      const { cookie } = await signIn(peer.url, path);
      runners.push(await createRunner(peer.name, `${peer.url}/threads/current`, { cookie }, peer));
    };
    for (const name of peers) await addPeer(keep(await startPeer(name, nextParts())));
    for (const name of apaches) await addPeer(keep(await startApache(name, nextParts())), '/session');
    assertDifferentOwners(runners);
    return measure(runners, effort);
  });
}

function takeAddress(addresses: Address[]): Address {
  const address = addresses.shift();
  if (!address) throw new Error('There are more servers than addresses.');
  return address;
}

async function startBareProxy(
  platform: Platform,
  keep: <S extends { stop(): Promise<void> }>(process: S) => S,
): Promise<Runner> {
  const env = { UPSTREAM_URL: platform.url, ACCESS_TOKEN: 'bare' };
  const process = keep(await startProcess('test/bench/bare-proxy.ts', { env }));
  const bareRunner = await createRunner(BARE, `http://127.0.0.1:${process.firstLine}/`, {}, { process });
  if (!bareRunner.request.body?.equals(threadOf('bare')))
    throw new Error('The thread does not name the owner of its token.');
  return bareRunner;
}

async function runnersOf(site: Site, storage: Storage): Promise<Runner[]> {
  const { cookie, session } = await signIn(site.url);
  const user = String((session.user as { id: string }).id);
  const sharedStorage = await openSharedStorage(site.env);
  const administrator = await createAdministrator(site, sharedStorage);
  const { token } = await administrator.createRelayToken({ assertUser: true });
  await sharedStorage.store.close();
  const service = { authorization: `Bearer ${token}`, 'gatehouse-user': user };
  return [
    await createRunner(`/threads/current, ${storage}`, `${site.url}/threads/current`, { cookie }, site),
    await createRunner(declaredCall(storage), `${site.url}/api/platform/1/threads/bench`, { cookie }, site),
    await createRunner(`/relay/threads/current, ${storage}`, `${site.url}/relay/threads/current`, service, site),
  ];
}

/** Every response must equal the first one, which names the owner of the thread. */
async function createRunner(
  name: string,
  url: string,
  headers: Record<string, string>,
  { process, redis }: Pick<Site, 'process'> & { redis?: RedisServer | undefined },
): Promise<Runner> {
  const firstRequest = prepareRequest(url, { headers: { accept: 'application/json', ...headers } });
  const connection = openConnection();
  const body = await new Promise<Buffer>((resolve, reject) =>
    connection.send(firstRequest, (response) =>
      response && isExpected(firstRequest, response)
        ? resolve(Buffer.from(response.body))
        : reject(new Error(`${name} returns ${response?.status} ${response?.body}`)),
    ),
  );
  connection.close();
  const request = { ...firstRequest, body };
  return { name, request, nextRequest: () => request, processes: [process], redis };
}

/** Checks that each server returns the thread of its own user. The two routes of Gatehouse share one. */
function assertDifferentOwners(runners: readonly Runner[]): void {
  const owners = new Map<string, string>();
  for (const { name, request, processes } of runners) {
    const { owner } = JSON.parse(String(request.body)).thread;
    const server = String(runners.findIndex((other) => other.processes[0] === processes[0]));
    if ((owners.get(owner) ?? server) !== server) throw new Error(`${name} returns the thread of another user.`);
    owners.set(owner, server);
  }
}

async function measure(runners: readonly Runner[], effort: Effort): Promise<Finding[]> {
  const costs = new Map<string, StorageCost>();
  for (const { name, redis, request } of runners) if (redis) costs.set(name, await storageCost(redis, request));
  const all: Summary[] = [];
  for (const connections of CONCURRENCIES) {
    const rows = (await contest(runners, connections, effort)).map((row) => ({
      ...row,
      commands: costs.get(row.name)?.commands,
    }));
    print(
      table(`GET /threads/current, 1 KB, ${connections} connections, medians of ${effort.runs} runs in turn`, rows),
    );
    all.push(...rows);
  }
  const findings = [...judge(all), ...judgeStorage(costs)];
  print(formatFindings('In relation to the bare proxy of the same run', findings));
  if (Object.keys(PEERS).every((peer) => all.some(({ name }) => name === peer))) writeFileSync(PICTURE, chart(all));
  else print('\ndocs/bench.svg is left as it was, because not everything could be measured.\n');
  return findings;
}

function judge(rows: readonly Summary[]): Finding[] {
  const rowOf = (name: string, connections: number) =>
    rows.find((row) => row.name === name && row.connections === connections);
  const ratios = Object.entries(TARGETS).flatMap(([name, least]) =>
    CONCURRENCIES.flatMap((connections): Finding[] => {
      const row = rowOf(name, connections);
      if (!row) return [];
      return [
        { what: `${name}, at ${connections}`, measured: row.ratio, unit: '', target: { least } },
        { what: `${name}, at ${connections}: p99`, measured: row.p99Ratio, unit: '', target: { most: 2 } },
      ];
    }),
  );
  const [ours, library] = ['/threads/current, Redis', LIBRARY_PEER].map((name) => rowOf(name, 32));
  const comparison: Finding[] =
    ours && library
      ? [
          {
            what: '/threads/current, Redis, against express-openid-connect, at 32',
            measured: ours.ratio / library.ratio,
            unit: '',
            target: { least: 2.5 },
          },
          {
            what: 'the same by CPU time for a request',
            measured: ours.cpuRatio / library.cpuRatio,
            unit: '',
          },
        ]
      : [];
  const declared = ['embedded', 'Redis'].flatMap((storage): Finding[] => {
    const [thread, call] = [`/threads/current, ${storage}`, declaredCall(storage)].map((name) => rowOf(name, 32));
    if (!thread || !call) return [];
    const what = `${call.name}: CPU time for a request, in those of /threads/current, at 32`;
    return [{ what, measured: thread.cpuRatio / call.cpuRatio, unit: '' }];
  });
  return [...ratios, ...declared, ...comparison];
}

/** The cost of background work per request. */
const BACKGROUND_COST = 0.1;

function judgeStorage(costs: ReadonlyMap<string, StorageCost>): Finding[] {
  return [...costs].flatMap(([name, { roundTrips, writes }]): Finding[] => {
    const hasTargets = name === '/threads/current, Redis';
    return [
      {
        what: `${name}: round trips to Redis`,
        measured: roundTrips,
        unit: '',
        ...(hasTargets ? { target: { most: 1 + BACKGROUND_COST } } : {}),
      },
      {
        what: `${name}: writes`,
        measured: writes,
        unit: '',
        ...(hasTargets ? { target: { most: BACKGROUND_COST } } : {}),
      },
    ];
  });
}
