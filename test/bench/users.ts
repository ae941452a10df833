/** Owns the part on the number of users and of processes: what a request costs with many people signed in, and what each of them costs. */

import { freePort } from '../support/ports.ts';
import { missingRedis } from '../support/redis-server.ts';
import { type Question, questionOf } from './connection.ts';
import { type Contestant, contest } from './contest.ts';
import { type Effort, type Outcome, say } from './effort.ts';
import { type Finding, tellFindings } from './findings.ts';
import { inTurn, load } from './load.ts';
import { seatPeople } from './people.ts';
import { type Measured, startGatehouseProcess } from './process.ts';
import { reservePlace, signIn, startGatehouse, startIdentityProvider, startPlatform, withAll } from './site.ts';
import { type Summary, table } from './table.ts';

const USERS = [1, 1_000, 100_000];
const CONNECTIONS = 32;
/** What memory and storage are told for. */
const MANY = 10_000;

interface Crowded extends Contestant {
  users: number;
  /** Bytes for each person, of the Redis and of the process. */
  storageEach: number;
  memoryForEach: number;
  /** CPU seconds for 1,000 requests where each was the first of its user at this process. */
  first: number;
  asked(): number;
  /** Changes of what its Redis keeps, so far. */
  writes(): number;
}

/** Of a request that comes a minute after the one before, which notes that the session and the connection were used. */
const WRITES_OF_NOTES = 2;

export async function benchUsers(effort: Effort): Promise<Outcome> {
  if (missingRedis !== undefined) return notMeasured(missingRedis);
  return withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const crowds: Crowded[] = [];
    for (const users of USERS) {
      const parts = { place: await reservePlace(), storage: 'Redis' as const, platformUrl: platform.url };
      // Nobody signs in here, so that no provider is asked for anything.
      const site = keep(await startGatehouse({ ...parts, issuer: 'https://idp.bench.example' }));
      const told = (section: string, field: string) =>
        Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(site.redis?.ask('INFO', section) ?? '')?.[1]);
      const used = () => told('memory', 'used_memory');
      const before = used();
      const questions = await seatPeople(site, users);
      const storageEach = (used() - before) / users;
      const name = `${users.toLocaleString('en-GB')} ${users === 1 ? 'user' : 'users'}, each in turn`;
      const ask = () => load(inTurn(questions.slice(0, 1)), { connections: CONNECTIONS, seconds: effort.seconds });
      await ask();
      const memory = site.process.memory();
      const first = await askEach(questions, site.process);
      const memoryForEach = (site.process.memory() - memory) / users;
      const next = inTurn(questions);
      let asked = 0;
      crowds.push({
        name,
        users,
        questions(connection) {
          asked += 1;
          return next(connection);
        },
        asked: () => asked,
        writes: () => told('persistence', 'rdb_changes_since_last_save'),
        processes: [site.process],
        storageEach,
        memoryForEach,
        first,
      });
    }
    const written = crowds.at(-1)?.writes() ?? Number.NaN;
    const rows = await contest(crowds, CONNECTIONS, effort);
    const notes = ((crowds.at(-1)?.writes() ?? Number.NaN) - written) / WRITES_OF_NOTES;
    say(table(`GET /threads/current, Redis, ${CONNECTIONS} connections, medians of ${effort.runs} runs in turn`, rows));
    const findings = judgeUsers(crowds, rows, notes);
    say(tellFindings('In relation to one user of the same run', findings));
    return { tables: rows, findings };
  });
}

/** Each question once, so that everybody has been here; answers the CPU seconds for 1,000 of them. */
async function askEach(questions: readonly Question[], process: Measured): Promise<number> {
  const next = inTurn(questions);
  const before = process.cpuSeconds();
  let asked = 0;
  while (asked < questions.length) asked += (await load(next, { connections: CONNECTIONS, seconds: 0.5 })).requests;
  return ((process.cpuSeconds() - before) / asked) * 1000;
}

/** @param notes that fell into the runs of the largest crowd: each comes once a minute, so that short runs on a quick machine have none */
function judgeUsers(crowds: readonly Crowded[], rows: readonly Summary[], notes: number): Finding[] {
  const most = crowds.at(-1);
  if (!most) return [];
  const costs = rows.slice(1).map(
    ({ name, cpuRatio }): Finding => ({
      what: `${name}: CPU time for a request`,
      measured: 1 / cpuRatio,
      unit: '',
      ...(name === most.name ? { target: { most: 1.15 } } : {}),
    }),
  );
  const ofOne = rows[0]?.cpuPer1000 ?? Number.NaN;
  return [
    ...costs,
    { what: `${most.name}: requests that noted their use`, measured: (notes / most.asked()) * 100, unit: '%' },
    { what: `${most.name}: the same where it is the first request of each`, measured: most.first / ofOne, unit: '' },
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
      measured: (most.memoryForEach * MANY) / 1e6,
      unit: 'MB',
    },
  ];
}

export async function benchProcesses(effort: Effort): Promise<Outcome> {
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
    return { tables: rows, findings };
  });
}

function notMeasured(why: string): Outcome {
  say(`\nNot measured: ${why}\n`);
  return { tables: [], findings: [] };
}
