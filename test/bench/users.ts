/** Benchmark of users and processes: what a request costs with many users signed in, and their memory. */

import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../support/ports.ts';
import { missingRedis } from '../support/redis-server.ts';
import { type PreparedRequest, prepareRequest } from './connection.ts';
import { type Contestant, contest } from './contest.ts';
import { type Effort, print } from './effort.ts';
import { type Finding, formatFindings } from './findings.ts';
import { inTurn, load } from './load.ts';
import { startGatehouseProcess } from './process.ts';
import { createSignedInUsers } from './signed-in-users.ts';
import {
  reserveAddress,
  type Site,
  signIn,
  startGatehouse,
  startIdentityProvider,
  startPlatform,
  withAll,
} from './site.ts';
import { countCommands } from './storage-cost.ts';
import { type Summary, table } from './table.ts';

const USERS = [1, 1_000, 100_000];
const CONNECTIONS = 32;
/** The numbers of users for which memory and storage are reported. */
const MANY = 10_000;

/** The use of a session is stored every three minutes, that of a connection every five. Others write nothing. */
const SESSION_NOTE_SECONDS = 180;
const NOTED_MILLISECONDS = 301_000;
const WRITES_OF_NOTES = 2;
/** The contest must end within three minutes after the first visits, which take half of this time. */
const LONGEST_RUN_SECONDS = 1;

interface Crowd extends Contestant {
  site: Site;
  /** One request of each user. */
  each: readonly PreparedRequest[];
  /** Bytes per user in Redis. */
  storageEach: number;
  /** Number of requests of the contest so far. */
  requests(): number;
}

/** The cost of the first requests of all users, or of those five minutes later. */
interface Visit {
  /** CPU seconds per 1,000 requests. */
  cpuPer1000: number;
  /** Bytes of the process per user. */
  memoryEach: number;
}

export async function benchUsers(effort: Effort): Promise<Finding[]> {
  if (missingRedis !== undefined) return skipPart(missingRedis);
  return withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const crowds: Crowd[] = [];
    for (const users of USERS) {
      const parts = { address: await reserveAddress(), storage: 'Redis' as const, platformUrl: platform.url };
      // There are no sign-ins here, so the provider is never called.
      crowds.push(
        await createCrowd(users, keep(await startGatehouse({ ...parts, issuer: 'https://idp.bench.example' }))),
      );
    }
    // Each user's first request stores the use, and no request of the contest, if that ends within three minutes.
    await sleep(NOTED_MILLISECONDS);
    const visits: Visit[] = [];
    for (const crowd of crowds) {
      await load(inTurn(crowd.each.slice(0, 1)), { connections: CONNECTIONS, seconds: effort.seconds });
      visits.push(await visit(crowd));
    }
    const largestCrowd = crowds.at(-1);
    const firstVisit = visits.at(-1);
    if (!largestCrowd || !firstVisit) throw new Error('There is no crowd.');
    const writesBefore = writesOf(largestCrowd.site);
    const rows = await contest(crowds, CONNECTIONS, {
      ...effort,
      seconds: Math.min(effort.seconds, LONGEST_RUN_SECONDS),
    });
    const noted = (writesOf(largestCrowd.site) - writesBefore) / WRITES_OF_NOTES / largestCrowd.requests();
    print(
      table(`GET /threads/current, Redis, ${CONNECTIONS} connections, medians of ${effort.runs} runs in turn`, rows),
    );
    await sleep(NOTED_MILLISECONDS);
    const findings = judgeUsers(largestCrowd, rows, {
      first: firstVisit,
      noted,
      later: await visit(largestCrowd),
    });
    print(formatFindings('In relation to one user of the same run', findings));
    return findings;
  });
}

async function createCrowd(users: number, site: Site): Promise<Crowd> {
  const usedBytes = () => Number(/^used_memory:(\d+)/m.exec(site.redis?.sendCommand('INFO', 'memory') ?? '')?.[1]);
  const bytesBefore = usedBytes();
  const each = await createSignedInUsers(site, users);
  const storageEach = (usedBytes() - bytesBefore) / users;
  const next = inTurn(each);
  let requests = 0;
  return {
    site,
    each,
    storageEach,
    processes: [site.process],
    name: `${users.toLocaleString('en-GB')} ${users === 1 ? 'user' : 'users'}, each in turn`,
    nextRequest(connection) {
      requests += 1;
      return next(connection);
    },
    requests: () => requests,
  };
}

const writesOf = ({ redis }: Site): number => (redis ? countCommands(redis).writes : Number.NaN);

/** Sends one request for each user. */
async function visit({ each, site: { process } }: Crowd): Promise<Visit> {
  const next = inTurn(each);
  const cpuBefore = process.cpuSeconds();
  const memoryBefore = process.memory();
  let requests = 0;
  while (requests < each.length) requests += (await load(next, { connections: CONNECTIONS, seconds: 0.5 })).requests;
  const cpu = process.cpuSeconds() - cpuBefore;
  const memory = process.memory() - memoryBefore;
  return { cpuPer1000: (cpu / requests) * 1000, memoryEach: memory / each.length };
}

/** @param visits `noted`: the share of the contest's requests that still stored their use */
function judgeUsers(
  most: Crowd,
  rows: readonly Summary[],
  { first, later, noted }: { first: Visit; later: Visit; noted: number },
): Finding[] {
  const costs = rows.slice(1).map(
    ({ name, cpuRatio }): Finding => ({
      what: `${name}: CPU time for a request`,
      measured: 1 / cpuRatio,
      unit: '',
    }),
  );
  const ofOne = rows[0]?.cpuPer1000 ?? Number.NaN;
  const ofMany = rows.at(-1);
  const secondsBetweenVisits = most.each.length / (ofMany?.requestsPerSecond ?? Number.NaN);
  const notes = Math.min(1, secondsBetweenVisits / SESSION_NOTE_SECONDS);
  const withNotes = ((ofMany?.cpuPer1000 ?? Number.NaN) * (1 - notes) + later.cpuPer1000 * notes) / ofOne;
  return [
    ...costs,
    {
      what: `${most.name}: the same, with the ${(notes * 100).toFixed(0)} % that note their use at this rate`,
      measured: withNotes,
      unit: '',
      target: { most: 1.15 },
    },
    { what: `${most.name}: requests among them that noted their use`, measured: noted * 100, unit: '%' },
    { what: `${most.name}: the first request of each`, measured: first.cpuPer1000 / ofOne, unit: '' },
    { what: `${most.name}: one five minutes later, which notes its use`, measured: later.cpuPer1000 / ofOne, unit: '' },
    {
      what: 'storage for each user, session and grant, token of 800 characters',
      measured: most.storageEach,
      unit: 'B',
      target: { most: 4_096 },
    },
    {
      what: `Redis for ${MANY.toLocaleString('en-GB')} sessions and grants`,
      measured: (most.storageEach * MANY) / 1e6,
      unit: 'MB',
    },
    {
      what: `process for ${MANY.toLocaleString('en-GB')} sessions and grants in use`,
      measured: (first.memoryEach * MANY) / 1e6,
      unit: 'MB',
    },
  ];
}

export async function benchProcesses(effort: Effort): Promise<Finding[]> {
  if (missingRedis !== undefined) return skipPart(missingRedis);
  return withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const address = await reserveAddress();
    const { issuer } = keep(await startIdentityProvider([address]));
    const site = keep(await startGatehouse({ address, storage: 'Redis', issuer, platformUrl: platform.url }));
    const port = await freePort();
    const ports = { PORT: String(port), MANAGEMENT_PORT: String(await freePort()) };
    const second = keep(await startGatehouseProcess({ ...site.env, ...ports }));
    const { cookie } = await signIn(site.url);
    const headers = { host: new URL(site.url).host, accept: 'application/json', cookie };
    const body = Buffer.from(await (await fetch(`${site.url}/threads/current`, { headers })).arrayBuffer());
    const requestTo = (url: string) => prepareRequest(`${url}/threads/current`, { headers, body });
    const toFirst = requestTo(site.url);
    const toSecond = requestTo(`http://127.0.0.1:${port}`);
    const contestants: Contestant[] = [
      { name: '1 process', nextRequest: () => toFirst, processes: [site.process] },
      {
        name: '2 processes, as many connections to each',
        nextRequest: (connection) => (connection % 2 === 0 ? toFirst : toSecond),
        processes: [site.process, second],
        share: 2,
      },
    ];
    const rows = await contest(contestants, CONNECTIONS, effort);
    print(
      table(`Processes on one Redis, ${CONNECTIONS} connections each, medians of ${effort.runs} runs in turn`, rows),
    );
    const findings: Finding[] = [
      {
        what: '2 processes against 1: CPU time for a request',
        measured: 1 / (rows[1]?.cpuRatio ?? Number.NaN),
        unit: '',
        target: { most: 1.1 },
      },
    ];
    print(formatFindings('In relation to one process of the same run', findings));
    return findings;
  });
}

function skipPart(why: string): Finding[] {
  print(`\nNot measured: ${why}\n`);
  return [];
}
