/** F29: the last release and the present program on one storage, changed one process at a time, there and back, under load. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ask, DATA, JSON_BODY } from '../support/ask.ts';
import { type Fleet, LOGINS, type Member, type Person, startFleet } from '../support/fleet.ts';
import { skipWithout } from '../support/missing.ts';
import { IN_MEMORY, missingRedis } from '../support/redis-server.ts';
import { missingRelease, type Release, unpackRelease } from '../support/release.ts';
import { isStarved } from '../support/starved.ts';
import { until } from '../support/until.ts';

/** What callers count at each process between two changes. */
const ENOUGH = 60;
const ENOUGH_REFRESHES = 4;

describe.each(['SQLite', 'Redis'] as const)('F29 a release and the present program on %s', (kind) => {
  const missing = missingRelease ?? (kind === 'Redis' ? missingRedis : undefined);
  let release: Release;
  let fleet: Fleet;
  let people: Person[];
  let visitor: string;
  beforeAll(async () => {
    if (missing) return;
    release = unpackRelease();
    // A disk that is late makes responses 503 that no change of versions has to do with.
    const redis = kind === 'Redis' && { redis: IN_MEMORY };
    fleet = await startFleet({ kind, processes: 2, ...redis, env: { REDIS_DURABILITY: 'none' } });
    await Promise.all(fleet.members.map((member) => change(member, release.folder)));
    // Short enough for refreshes all the time.
    fleet.tokens.lifetimeSeconds = 2;
    const [first = '', second = '', third = ''] = LOGINS;
    people = [await fleet.signIn(first), await fleet.signIn(second)];
    visitor = third;
  });
  afterAll(async () => {
    await fleet?.close();
    release?.dispose();
  });

  async function change(member: Member, folder?: string): Promise<void> {
    member.signal('SIGTERM');
    expect(await member.program.ended).toEqual({ status: 0, signal: null });
    await member.start(folder);
  }

  const request = (member: Member, person: Person, [method, path]: readonly [string, string]) => {
    const headers = { ...DATA, host: new URL(fleet.url).host, cookie: person.cookie };
    if (method === 'GET') return ask(member.url + path, { headers });
    const body = JSON.stringify({ bins: ['45717360'] });
    return ask(member.url + path, {
      method,
      headers: { ...headers, ...JSON_BODY, 'x-csrf-token': person.csrfToken },
      body,
    });
  };

  /** Calls in the name of the people until `stop`, at each process that serves. */
  function startLoad() {
    const serving = new Set(fleet.members);
    const wrong: string[] = [];
    const served = new Map<Member, number>();
    const underWay = new Map<Member, number>();
    const count = (counts: Map<Member, number>, member: Member, more: number) =>
      void counts.set(member, (counts.get(member) ?? 0) + more);
    let isOver = false;
    const caller = async (person: Person, start: number) => {
      const calls = [
        ['GET', '/threads/current'],
        ['POST', '/bin'],
        ['GET', '/session'],
      ] as const;
      for (let turn = start; !isOver; turn += 1) {
        const member = [...serving][turn % serving.size];
        const call = calls[turn % calls.length];
        if (!member || !call) continue;
        count(underWay, member, 1);
        const { status, body } = await request(member, person, call).catch(({ message }: Error) => ({
          status: 0,
          body: message,
        }));
        count(underWay, member, -1);
        if (isStarved({ status, body })) continue;
        const isWell = status === 200 && (call[1] !== '/session' || body.includes(person.userId));
        if (isWell) count(served, member, 1);
        else wrong.push(`${call.join(' ')} ${status} ${body.slice(0, 200)}`);
        await sleep(5);
      }
    };
    const callers = [...people, ...people].map(caller);
    return {
      wrong,
      /** As a balancer does: no new request goes to the process while it is changed. */
      async without(member: Member, work: () => Promise<void>): Promise<void> {
        serving.delete(member);
        await until(() => underWay.get(member) === 0);
        await work();
        serving.add(member);
      },
      /** Until both processes have served a good deal, and tokens were refreshed, or a request failed. */
      async continues(): Promise<void> {
        served.clear();
        const uses = fleet.tokens.uses.length;
        const isEnough = () =>
          fleet.members.every((member) => (served.get(member) ?? 0) >= ENOUGH) &&
          fleet.tokens.uses.length >= uses + ENOUGH_REFRESHES;
        await until(() => wrong.length > 0 || isEnough());
        expect(wrong).toEqual([]);
      },
      async stop(): Promise<void> {
        isOver = true;
        await Promise.all(callers);
        await fleet.tokens.quiet();
      },
    };
  }

  test('lose no session, no connection and no refresh, on the way to the new version and back', async (context) => {
    skipWithout(context, missing);
    const load = startLoad();
    const visits: Person[] = [];
    try {
      await load.continues();
      const [first, second] = [fleet.member(0), fleet.member(1)];
      const steps = [
        ...[{ member: first }, { member: second }],
        ...[
          { member: first, folder: release.folder },
          { member: second, folder: release.folder },
        ],
      ];
      for (const { member, folder } of steps) {
        await load.without(member, () => change(member, folder));
        // Sessions that the one begins are sessions of the other, too.
        visits.push(await fleet.signIn(visitor));
        for (const visit of visits)
          for (const at of fleet.members) {
            const { body } = await request(at, visit, ['GET', '/session']);
            expect(JSON.parse(body)).toMatchObject({ signedIn: true, user: { id: visit.userId } });
          }
        await load.continues();
      }
    } finally {
      await load.stop();
    }
    expect(load.wrong).toEqual([]);
    expect(fleet.tokens.refusals()).toBe(0);
    for (const { userId } of people) {
      const { refreshToken } = await fleet.vault.read(userId);
      expect(refreshToken).toBe(fleet.tokens.latestOf(userId)?.refreshToken);
    }
  });
});
