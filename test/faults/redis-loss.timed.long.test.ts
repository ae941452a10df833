/** Real processes under load when their Redis is killed, frozen, made a replica, emptied, or replaced by another. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { retryWhileUnavailable } from '../../src/shared/storage/retry.ts';
import { type Asked, ask } from '../support/ask.ts';
import { type Crowd, type CrowdPerson, startCrowd } from '../support/crowd.ts';
import type { Member } from '../support/fleet.ts';
import { skipWithout } from '../support/missing.ts';
import {
  IN_MEMORY,
  missingRedis,
  type RedisServer,
  startCluster,
  startSentinelSet,
  untilReplicated,
} from '../support/redis-server.ts';
import { refusalOf } from '../support/refusal.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { until } from '../support/until.ts';
import { startLoad } from './load.ts';
import { createFaultReport, LONG } from './report.ts';
import { watchStalls } from './stalls.ts';

const PEOPLE = 100;
const KILLS = LONG ? 10 : 1;
/** Requests a second that each need a refresh: a short run may have a slow machine, and others on it. */
const RATE = LONG ? 100 : 40;
/** REDIS_TIMEOUT_MS where it is not set. */
const DEADLINE_MILLISECONDS = 2_000;
const report = createFaultReport();
afterAll(() => report.print('Loss of Redis'));

function fault(name: string, rounds: number, work: () => Promise<string | undefined>): void {
  test(name, async (context: TestContext) => {
    skipWithout(context, missingRedis);
    await report.run(name, rounds, work);
  });
}

/** Milliseconds until every process has answered this person well. */
async function recovery(crowd: Crowd, person: CrowdPerson): Promise<number> {
  const took = startStopwatch();
  for (const member of crowd.members) {
    await until(async () => (await crowd.thread(member, person)).status === 200);
  }
  return took();
}

const watchStallsOf = (crowd: Crowd) =>
  watchStalls(() => Promise.all(crowd.members.map((member) => crowd.manage(member, '/healthz'))));

/** Within two seconds, and what the machine adds to any answer meanwhile. */
async function backSoon(crowd: Crowd, person: CrowdPerson): Promise<number> {
  const stalls = watchStallsOf(crowd);
  const milliseconds = await recovery(crowd, person);
  expect(milliseconds).toBeLessThan(2_000 + (await stalls.stop()));
  return milliseconds;
}

const health = async (crowd: Crowd, member: Member) => {
  const [alive, ready] = await Promise.all(['/healthz', '/readyz'].map((path) => crowd.manage(member, path)));
  return [alive?.status, ready?.status];
};

/** Who asked to be disconnected, and was told that it is done, or was not told and may be either. */
interface Leavers {
  told: Set<CrowdPerson>;
  untold: Set<CrowdPerson>;
}

/** Everybody but those who disconnected is served, with the newest token that the provider gave. */
async function nothingIsLost(crowd: Crowd, { told, untold }: Leavers): Promise<void> {
  for (const [n, person] of crowd.people.entries()) {
    const answer = await settledAnswer(crowd, crowd.member(n % crowd.members.length), person);
    const { owner, code } = JSON.parse(answer.body) as { owner?: string; code?: string };
    if (untold.has(person) && code === 'not_connected') continue;
    expect([person.name, owner ?? code]).toEqual([person.name, told.has(person) ? 'not_connected' : person.userId]);
    if (told.has(person)) continue;
    // Our own connection may be back a moment later than theirs.
    const { refreshToken } = await retryWhileUnavailable(() => crowd.vault.read(person.userId));
    expect(refreshToken).toBe(crowd.provider.latestOf(person.userId)?.refreshToken);
  }
  expect(crowd.provider.refusals()).toBe(0);
}

/** A replica that follows a new master may be a moment late with a write: what was refused so is asked for again. */
async function settledAnswer(crowd: Crowd, member: Member, person: CrowdPerson): Promise<Asked> {
  let answer = await crowd.thread(member, person);
  for (let again = 0; again < 10 && answer.status === 503; again += 1) {
    await sleep(300);
    answer = await crowd.thread(member, person);
  }
  return answer;
}

/** Refreshes and disconnects without pause while the storage is taken away, and keeps who left. */
async function whileItGoes(crowd: Crowd, { told, untold }: Leavers, take: () => Promise<void>) {
  const leaving = crowd.people.slice(-10);
  const staying = crowd.people.slice(0, -10);
  crowd.provider.lifetimeSeconds = 1;
  crowd.provider.delayMilliseconds = () => Math.random() * 100;
  const load = startLoad(crowd, { perSecond: RATE, people: staying });
  let leavingIsOpen = true;
  const leave = (async () => {
    for (const person of leaving) {
      if (!leavingIsOpen) return;
      const answer = await crowd.post(crowd.member(0), '/connections/platform/disconnect', person);
      if (answer.status === 200) told.add(person);
      else if (!told.has(person)) untold.add(person);
      await sleep(60);
    }
  })();
  await sleep(400);
  await take();
  leavingIsOpen = false;
  await leave;
  const tally = await load.stop();
  crowd.provider.lifetimeSeconds = 3_600;
  crowd.provider.delayMilliseconds = () => 0;
  return tally;
}

describe('F4 to F8: a Redis with an append-only file', () => {
  let crowd: Crowd;
  let redis: RedisServer;
  const leavers: Leavers = { told: new Set(), untold: new Set() };
  beforeAll(async () => {
    if (missingRedis) return;
    crowd = await startCrowd({ kind: 'Redis', processes: 2, people: PEOPLE });
    if (crowd.redis) redis = crowd.redis;
  });
  afterAll(() => crowd?.close());

  fault(
    `F4: killed ${KILLS} times under load: 503 within 500 ms, health answers, back within 2 s, nothing acknowledged is lost`,
    KILLS,
    async () => {
      let slowestRefusal = 0;
      let slowestReturn = 0;
      const stalls = watchStallsOf(crowd);
      for (let round = 0; round < KILLS; round += 1) {
        const tally = await whileItGoes(crowd, leavers, async () => {
          await redis.kill();
          await sleep(300);
          for (const member of crowd.members) expect(await health(crowd, member)).toEqual([200, 503]);
          await redis.start();
          slowestReturn = Math.max(slowestReturn, await recovery(crowd, crowd.people[0] as CrowdPerson));
        });
        expect(Object.keys(tally.statuses).filter((status) => status !== '200' && status !== '503')).toEqual([]);
        expect(tally.statuses[503]).toBeGreaterThan(0);
        expect(tally.strangers).toEqual([]);
        slowestRefusal = Math.max(slowestRefusal, tally.slowestRefusalMilliseconds);
        await nothingIsLost(crowd, leavers);
      }
      const stall = await stalls.stop();
      expect(slowestReturn).toBeLessThan(2_000 + stall);
      expect(slowestRefusal).toBeLessThan(500 + stall);
      return `refused within ${Math.round(slowestRefusal)} ms, back within ${Math.round(slowestReturn)} ms`;
    },
  );

  fault('F8: restarted while nobody asked: the first request of every process is answered', 1, async () => {
    await redis.kill();
    await redis.start();
    await sleep(1_000);
    const answers = await Promise.all(
      crowd.members.map((member) => crowd.thread(member, crowd.people[1] as CrowdPerson)),
    );
    expect(answers.map(({ status }) => status)).toEqual(crowd.members.map(() => 200));
    return undefined;
  });

  fault(
    'F25: frozen for nearly the deadline at a token response, strict provider: no 503, nobody reconnects',
    1,
    async () => {
      const [person] = crowd.people;
      if (!person) throw new Error('There are no people.');
      await backSoon(crowd, person);
      const refusals = crowd.provider.refusals();
      await crowd.expire(person);
      crowd.provider.delayMilliseconds = () => {
        redis.signal('SIGSTOP');
        setTimeout(() => redis.signal('SIGCONT'), DEADLINE_MILLISECONDS - 200);
        return 0;
      };
      const answers = crowd.members.map((member) => crowd.thread(member, person));
      expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200]);
      crowd.provider.delayMilliseconds = () => 0;
      expect(crowd.provider.refusals()).toBe(refusals);
      const { refreshToken, failure } = await crowd.vault.read(person.userId);
      expect([refreshToken, failure]).toEqual([crowd.provider.latestOf(person.userId)?.refreshToken, undefined]);
      return undefined;
    },
  );

  fault(
    'F6: frozen: only the first wait for the deadline, health and style sheets answer at once, back within 2 s',
    1,
    async () => {
      const [person] = crowd.people;
      if (!person) throw new Error('There are no people.');
      const stalls = watchStallsOf(crowd);
      const refusals: number[] = [];
      const others: number[] = [];
      redis.signal('SIGSTOP');
      try {
        const first = await Promise.all(crowd.members.map((member) => crowd.thread(member, person)));
        expect(first.map(({ status }) => status)).toEqual([503, 503]);
        for (let again = 0; again < 3; again += 1) {
          const took = startStopwatch();
          const answers = await Promise.all(crowd.members.map((member) => crowd.thread(member, person)));
          refusals.push(took());
          expect(answers.map(({ status }) => status)).toEqual([503, 503]);
          const tookOthers = startStopwatch();
          expect((await crowd.manage(crowd.member(0), '/healthz')).status).toBe(200);
          expect((await ask(`${crowd.member(0).url}/assets/gatehouse.css`)).status).toBe(200);
          others.push(tookOthers());
        }
      } finally {
        redis.signal('SIGCONT');
      }
      // A process that waited for Redis would do so each time.
      expect(LONG ? Math.max(...others) : Math.min(...others)).toBeLessThan(LONG ? 150 : 300);
      expect(Math.max(...refusals)).toBeLessThan(100 + (await stalls.stop()));
      const back = await backSoon(crowd, person);
      return `refused within ${Math.round(Math.max(...refusals))} ms, back within ${Math.round(back)} ms`;
    },
  );

  fault(
    'F7: made a replica: fresh tokens work, no refresh is begun, not ready; a master again, all is well',
    1,
    async () => {
      const [fresh, due] = crowd.people;
      if (!fresh || !due) throw new Error('There are no people.');
      await backSoon(crowd, fresh);
      await crowd.expire(due);
      const refreshes = crowd.provider.refreshes();
      redis.ask('REPLICAOF', '127.0.0.1', '1');
      await until(async () => (await health(crowd, crowd.member(0)))[1] === 503);
      await until(async () => (await crowd.thread(crowd.member(0), fresh)).status === 200);
      const refused = await crowd.thread(crowd.member(0), due);
      expect([refused.status, JSON.parse(refused.body).code]).toEqual([503, 'storage_unavailable']);
      expect(crowd.provider.refreshes()).toBe(refreshes);
      redis.ask('REPLICAOF', 'NO', 'ONE');
      await backSoon(crowd, due);
      expect(crowd.provider.refreshes()).toBe(refreshes + 1);
      return undefined;
    },
  );

  fault(
    'F9: gone and back while processes run: nothing else is written to meanwhile, what ended stays so, what was refused was not done',
    1,
    async () => {
      const [gone, staying] = crowd.people.slice(20, 22);
      if (!gone || !staying) throw new Error('There are no people.');
      await backSoon(crowd, staying);
      const pids = crowd.members.map(({ program }) => program.pid);
      expect((await crowd.post(crowd.member(0), '/sign-out', gone)).status).toBe(303);
      await redis.kill();
      for (const member of crowd.members) {
        for (const person of [gone, staying]) expect((await crowd.thread(member, person)).status).toBe(503);
        for (const path of ['/sign-out', '/connections/platform/disconnect'])
          expect((await crowd.post(member, path, staying)).status).toBe(503);
      }
      expect(existsSync(crowd.dataDirectory)).toBe(false);
      await redis.start();
      await backSoon(crowd, staying);
      for (const member of crowd.members) {
        expect((await crowd.thread(member, gone)).status).toBe(401);
        const { status, body } = await crowd.thread(member, staying);
        expect([status, JSON.parse(body).owner]).toEqual([200, staying.userId]);
      }
      expect(crowd.members.map(({ program }) => program.pid)).toEqual(pids);
      expect(existsSync(crowd.dataDirectory)).toBe(false);
      return undefined;
    },
  );

  fault(
    'F5: restarted empty: all is refused, so is a start, and after one that is allowed people sign in and connect again',
    1,
    async () => {
      const [person] = crowd.people;
      if (!person) throw new Error('There are no people.');
      await redis.kill();
      rmSync(join(redis.directory, 'appendonlydir'), { recursive: true });
      await redis.start(IN_MEMORY);
      for (const member of crowd.members) {
        expect((await crowd.thread(member, person)).status).toBe(503);
        expect(await health(crowd, member)).toEqual([200, 503]);
      }
      const [first] = crowd.members;
      if (!first) throw new Error('There is no process.');
      await first.kill();
      expect(await refusalOf(first.env)).toMatch(/append-only/);
      first.env.REDIS_DURABILITY = 'none';
      await first.start();
      await crowd.addPeople(PEOPLE, PEOPLE + 5);
      const answers = await Promise.all(crowd.people.slice(-5).map((one) => crowd.thread(first, one)));
      expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(200));
      return undefined;
    },
  );
});

describe('a Redis that fails over', () => {
  const closers: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
  });

  fault(
    'by Sentinel, its master killed under load: served again within 5 s where a vote takes 3, nothing acknowledged is lost',
    1,
    async () => {
      const set = await startSentinelSet();
      closers.push(() => set.dispose());
      const otherRedis = {
        REDIS_SENTINELS: set.addresses,
        REDIS_SENTINEL_NAME: set.name,
        REDIS_DURABILITY: 'replicas',
      };
      const crowd = await startCrowd({ kind: 'Redis', processes: 2, people: PEOPLE, otherRedis });
      closers.push(() => crowd.close());
      let seconds = 0;
      const leavers: Leavers = { told: new Set(), untold: new Set() };
      const tally = await whileItGoes(crowd, leavers, async () => {
        const master = set.servers.find((server) => server.ask('ROLE').startsWith('master'));
        await master?.kill();
        const sinceKilled = startStopwatch();
        const masterOf = () => set.sentinels[0]?.ask('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', set.name) ?? '';
        // Each look stops this process, and with it the provider, for some milliseconds.
        while (masterOf().includes(String(master?.port))) await sleep(100);
        const sinceElected = startStopwatch();
        await recovery(crowd, crowd.people[0] as CrowdPerson);
        seconds = sinceKilled() / 1_000;
        // Sentinels that split their votes begin again, as often as it takes; Gatehouse may add little to that.
        expect(Math.min(sinceElected(), sinceKilled() - 3_000)).toBeLessThan(2_000);
      });
      expect(Object.keys(tally.statuses).filter((status) => status !== '200' && status !== '503')).toEqual([]);
      expect(tally.strangers).toEqual([]);
      await nothingIsLost(crowd, leavers);
      return `served again after ${seconds.toFixed(1)} s`;
    },
  );

  fault('as a cluster, a master killed under load: everybody is served again, with the newest token', 1, async () => {
    const servers = await startCluster(6);
    closers.push(() => Promise.all(servers.map((server) => server.dispose())));
    const otherRedis = { REDIS_CLUSTER: servers.map(({ port }) => `127.0.0.1:${port}`).join(',') };
    const crowd = await startCrowd({ kind: 'Redis', processes: 2, people: PEOPLE, otherRedis });
    closers.push(() => crowd.close());
    for (const person of crowd.people) expect((await crowd.thread(crowd.member(0), person)).status).toBe(200);
    // A cluster's replicas have no part in a write's answer; from here on people only read.
    await untilReplicated(servers);
    const load = startLoad(crowd, { perSecond: 50 });
    const victim = servers.find((server) => server.ask('ROLE').startsWith('master'));
    await victim?.kill();
    const killed = performance.now();
    for (const person of crowd.people)
      await until(async () => (await crowd.thread(crowd.member(1), person)).status === 200);
    const seconds = (performance.now() - killed) / 1_000;
    const { strangers } = await load.stop();
    expect(strangers).toEqual([]);
    // The test's own store may hear of the new master only now.
    await until(() =>
      crowd.vault.store.ready().then(
        () => true,
        () => false,
      ),
    );
    for (const person of crowd.people) await crowd.expire(person);
    await nothingIsLost(crowd, { told: new Set(), untold: new Set() });
    return `everybody is served again after ${seconds.toFixed(1)} s`;
  });
});
