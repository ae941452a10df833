/** The main benchmark: an authenticated GET of the current thread through Gatehouse, its peers, and a bare proxy. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createAdministrator } from '../gatehouse/relay/service.ts';
import { openSharedStorage } from '../support/fleet.ts';
import { missingRedis, type RedisServer } from '../support/redis-server.ts';
import { APACHE_PEERS, apacheIsInstalled, startApache } from './apache.ts';
import { chart } from './chart.ts';
import { isGood, openConnection, type Question, questionOf } from './connection.ts';
import { type Contestant, contest } from './contest.ts';
import { type Effort, say } from './effort.ts';
import { type Finding, tellFindings } from './findings.ts';
import { LIBRARY_PEER, PEERS, type Peer, type PeerName, peersAreInstalled, startPeer } from './peers.ts';
import { startProcess } from './process.ts';
import {
  type IdentityProvider,
  type Place,
  type Platform,
  reservePlace,
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
/** Minimum ratio to the bare proxy, at each concurrency. */
const TARGETS: Record<string, number> = {
  '/threads/current, embedded': 0.65,
  '/threads/current, Redis': 0.6,
  '/relay/threads/current, embedded': 0.6,
  '/relay/threads/current, Redis': 0.55,
};

interface Runner extends Contestant {
  redis?: RedisServer | undefined;
  question: Question;
}

export function benchThreads(effort: Effort): Promise<Finding[]> {
  return withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const storages: Storage[] = missingRedis === undefined ? ['embedded', 'Redis'] : ['embedded'];
    const peers = peersAreInstalled() && missingRedis === undefined ? (Object.keys(PEERS) as PeerName[]) : [];
    const apaches = apacheIsInstalled() && missingRedis === undefined ? APACHE_PEERS : [];
    const places = await Promise.all([...storages, ...peers, ...apaches].map(reservePlace));
    const provider = keep(await startIdentityProvider(places));
    const next = () => placeFrom(places);
    const runners = [await bare(platform, keep)];
    for (const storage of storages) {
      const site = keep(await startGatehouse({ ...at(platform, provider), place: next(), storage }));
      runners.push(...(await gatehouse(site, storage)));
    }
    const enter = async (peer: Peer, path?: string) => {
      const { cookie } = await signIn(peer.url, path);
      runners.push(await runner(peer.name, `${peer.url}/threads/current`, { cookie }, peer));
    };
    const nextParts = () => ({ ...at(platform, provider), place: next() });
    for (const name of peers) await enter(keep(await startPeer(name, nextParts())));
    for (const name of apaches) await enter(keep(await startApache(name, nextParts())), '/session');
    assertOwnOwners(runners);
    return measure(runners, effort);
  });
}

const at = (platform: Platform, { issuer }: IdentityProvider) => ({ issuer, platformUrl: platform.url });

function placeFrom(places: Place[]): Place {
  const place = places.shift();
  if (!place) throw new Error('There are more servers than places.');
  return place;
}

async function bare(platform: Platform, keep: <S extends { stop(): Promise<void> }>(process: S) => S): Promise<Runner> {
  const env = { UPSTREAM_URL: platform.url, ACCESS_TOKEN: 'bare' };
  const process = keep(await startProcess('test/bench/bare-proxy.ts', { env }));
  const bareRunner = await runner(BARE, `http://127.0.0.1:${process.firstLine}/`, {}, { process });
  if (!bareRunner.question.body?.equals(threadOf('bare')))
    throw new Error('The thread does not name the owner of its token.');
  return bareRunner;
}

async function gatehouse(site: Site, storage: Storage): Promise<Runner[]> {
  const { cookie, session } = await signIn(site.url);
  const user = String((session.user as { id: string }).id);
  const vault = await openSharedStorage(site.env);
  const administrator = await createAdministrator(site, vault);
  const { token } = await administrator.createRelayToken({ assertUser: true });
  await vault.store.close();
  const service = { authorization: `Bearer ${token}`, 'gatehouse-user': user };
  return [
    await runner(`/threads/current, ${storage}`, `${site.url}/threads/current`, { cookie }, site),
    await runner(`/relay/threads/current, ${storage}`, `${site.url}/relay/threads/current`, service, site),
  ];
}

/** Every response must equal the first one, which names the owner of the thread. */
async function runner(
  name: string,
  url: string,
  headers: Record<string, string>,
  { process, redis }: Pick<Site, 'process'> & { redis?: RedisServer | undefined },
): Promise<Runner> {
  const firstQuestion = questionOf(url, { headers: { accept: 'application/json', ...headers } });
  const connection = openConnection();
  const body = await new Promise<Buffer>((resolve, reject) =>
    connection.ask(firstQuestion, (response) =>
      response && isGood(firstQuestion, response)
        ? resolve(Buffer.from(response.body))
        : reject(new Error(`${name} returns ${response?.status} ${response?.body}`)),
    ),
  );
  connection.close();
  const question = { ...firstQuestion, body };
  return { name, question, questions: () => question, processes: [process], redis };
}

/** Checks that each server returns the thread of its own user. The two routes of Gatehouse share one. */
function assertOwnOwners(runners: readonly Runner[]): void {
  const owners = new Map<string, string>();
  for (const { name, question, processes } of runners) {
    const { owner } = JSON.parse(String(question.body)).thread;
    const server = String(runners.findIndex((other) => other.processes[0] === processes[0]));
    if ((owners.get(owner) ?? server) !== server) throw new Error(`${name} returns the thread of another user.`);
    owners.set(owner, server);
  }
}

async function measure(runners: readonly Runner[], effort: Effort): Promise<Finding[]> {
  const costs = new Map<string, StorageCost>();
  for (const { name, redis, question } of runners) if (redis) costs.set(name, await storageCost(redis, question));
  const all: Summary[] = [];
  for (const connections of CONCURRENCIES) {
    const rows = (await contest(runners, connections, effort)).map((row) => ({
      ...row,
      commands: costs.get(row.name)?.commands,
    }));
    say(table(`GET /threads/current, 1 KB, ${connections} connections, medians of ${effort.runs} runs in turn`, rows));
    all.push(...rows);
  }
  const findings = [...judge(all), ...judgeStorage(costs)];
  say(tellFindings('In relation to the bare proxy of the same run', findings));
  if (Object.keys(PEERS).every((peer) => all.some(({ name }) => name === peer))) writeFileSync(PICTURE, chart(all));
  else say('\ndocs/bench.svg is left as it was, since not all could be measured.\n');
  return findings;
}

function judge(rows: readonly Summary[]): Finding[] {
  const of = (name: string, connections: number) =>
    rows.find((row) => row.name === name && row.connections === connections);
  const ratios = Object.entries(TARGETS).flatMap(([name, least]) =>
    CONCURRENCIES.flatMap((connections): Finding[] => {
      const row = of(name, connections);
      if (!row) return [];
      return [
        { what: `${name}, at ${connections}`, measured: row.ratio, unit: '', target: { least } },
        { what: `${name}, at ${connections}: p99`, measured: row.p99Ratio, unit: '', target: { most: 2 } },
      ];
    }),
  );
  const [ours, library] = ['/threads/current, Redis', LIBRARY_PEER].map((name) => of(name, 32));
  const against: Finding[] =
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
  return [...ratios, ...against];
}

/** The cost of background work per request. */
const CHORES = 0.1;

function judgeStorage(costs: ReadonlyMap<string, StorageCost>): Finding[] {
  return [...costs].flatMap(([name, { roundTrips, writes }]): Finding[] => {
    const judged = name === '/threads/current, Redis';
    return [
      {
        what: `${name}: round trips to Redis`,
        measured: roundTrips,
        unit: '',
        ...(judged ? { target: { most: 1 + CHORES } } : {}),
      },
      { what: `${name}: writes`, measured: writes, unit: '', ...(judged ? { target: { most: CHORES } } : {}) },
    ];
  });
}
