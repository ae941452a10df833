/** Benchmark of users and processes: what a request costs with many users signed in, and their memory. */

import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../support/ports.ts';
import { missingRedis } from '../support/redis-server.ts';
import { type Question, questionOf } from './connection.ts';
import { type Contestant, contest } from './contest.ts';
import { type Effort, say } from './effort.ts';
import { type Finding, tellFindings } from './findings.ts';
import { inTurn, load } from './load.ts';
import { seatPeople } from './people.ts';
import { startGatehouseProcess } from './process.ts';
import {
  reservePlace,
  type Site,
  signIn,
  startGatehouse,
  startIdentityProvider,
  startPlatform,
  withAll,
} from './site.ts';
import { counted } from './storage-cost.ts';
import { type Summary, table } from './table.ts';

const USERS = [1, 1_000, 100_000];
const CONNECTIONS = 32;
/** The numbers of users for which memory and storage are reported. */
const MANY = 10_000;

/** The use of a session is stored every three minutes, that of a connection every five. Others write nothing. */
const [SESSION_NOTE_SECONDS, NOTED_MILLISECONDS] = [180, 301_000];
const WRITES_OF_NOTES = 2;
/** The contest must end within three minutes after the first visits, which take half of this time. */
const LONGEST_RUN_SECONDS = 1;

interface Crowd extends Contestant {
  site: Site;
  /** One request of each user. */
  each: readonly Question[];
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
  if (missingRedis !== undefined) return notMeasured(missingRedis);
  return withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const crowds: Crowd[] = [];
    for (const users of USERS) {
      const parts = { place: await reservePlace(), storage: 'Redis' as const, platformUrl: platform.url };
      // There are no sign-ins here, so the provider is never called.
      crowds.push(
        await seatCrowd(users, keep(await startGatehouse({ ...parts, issuer: 'https://idp.bench.example' }))),
      );
    }
    // Each user's first request stores the use, and no request of the contest, if that ends within three minutes.
    await sleep(NOTED_MILLISECONDS);
    const visits: Visit[] = [];
    for (const crowd of crowds) {
      await load(inTurn(crowd.each.slice(0, 1)), { connections: CONNECTIONS, seconds: effort.seconds });
      visits.push(await visit(crowd));
    }
    const [most, first] = [crowds.at(-1), visits.at(-1)];
    if (!most || !first) throw new Error('There is no crowd.');
    const written = writesOf(most.site);
    const rows = await contest(crowds, CONNECTIONS, {
      ...effort,
      seconds: Math.min(effort.seconds, LONGEST_RUN_SECONDS),
    });
    const noted = (writesOf(most.site) - written) / WRITES_OF_NOTES / most.requests();
    say(table(`GET /threads/current, Redis, ${CONNECTIONS} connections, medians of ${effort.runs} runs in turn`, rows));
    await sleep(NOTED_MILLISECONDS);
    const findings = judgeUsers(most, rows, { first, noted, later: await visit(most) });
    say(tellFindings('In relation to one user of the same run', findings));
    return findings;
  });
}

async function seatCrowd(users: number, site: Site): Promise<Crowd> {
  const used = () => Number(/^used_memory:(\d+)/m.exec(site.redis?.sendCommand('INFO', 'memory') ?? '')?.[1]);
  const before = used();
  const each = await seatPeople(site, users);
  const storageEach = (used() - before) / users;
  const next = inTurn(each);
  let requests = 0;
  return {
    site,
    each,
    storageEach,
    processes: [site.process],
    name: `${users.toLocaleString('en-GB')} ${users === 1 ? 'user' : 'users'}, each in turn`,
    questions(connection) {
      requests += 1;
      return next(connection);
    },
    requests: () => requests,
  };
}

const writesOf = ({ redis }: Site): number => (redis ? counted(redis).writes : Number.NaN);

/** Sends one request for each user. */
async function visit({ each, site: { process } }: Crowd): Promise<Visit> {
  const next = inTurn(each);
  const [cpuBefore, memoryBefore] = [process.cpuSeconds(), process.memory()];
  let requests = 0;
  while (requests < each.length) requests += (await load(next, { connections: CONNECTIONS, seconds: 0.5 })).requests;
  const [cpu, memory] = [process.cpuSeconds() - cpuBefore, process.memory() - memoryBefore];
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
  if (missingRedis !== undefined) return notMeasured(missingRedis);
  return withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const place = await reservePlace();
    const { issuer } = keep(await startIdentityProvider([place]));
    const site = keep(await startGatehouse({ place, storage: 'Redis', issuer, platformUrl: platform.url }));
    const port = await freePort();
    const ports = { PORT: String(port), MANAGEMENT_PORT: String(await freePort()) };
    const second = keep(await startGatehouseProcess({ ...site.env, ...ports }));
    const { cookie } = await signIn(site.url);
    const headers = { host: new URL(site.url).host, accept: 'application/json', cookie };
    const body = Buffer.from(await (await fetch(`${site.url}/threads/current`, { headers })).arrayBuffer());
    const [first, other] = [site.url, `http://127.0.0.1:${port}`].map((url) =>
      questionOf(`${url}/threads/current`, { headers, body }),
    );
    if (!first || !other) throw new Error('Two processes have two addresses.');
    const contestants: Contestant[] = [
      { name: '1 process', questions: () => first, processes: [site.process] },
      {
        name: '2 processes, as many connections to each',
        questions: (connection) => (connection % 2 === 0 ? first : other),
        processes: [site.process, second],
        share: 2,
      },
    ];
    const rows = await contest(contestants, CONNECTIONS, effort);
    say(table(`Processes on one Redis, ${CONNECTIONS} connections each, medians of ${effort.runs} runs in turn`, rows));
    const findings: Finding[] = [
      {
        what: '2 processes against 1: CPU time for a request',
        measured: 1 / (rows[1]?.cpuRatio ?? Number.NaN),
        unit: '',
        target: { most: 1.1 },
      },
    ];
    say(tellFindings('In relation to one process of the same run', findings));
    return findings;
  });
}

function notMeasured(why: string): Finding[] {
  say(`\nNot measured: ${why}\n`);
  return [];
}
