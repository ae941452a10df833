/** F21: processes that get too few file descriptors or too little memory: they refuse what they cannot do, live, and recover. */
import { readdirSync } from 'node:fs';
import { Agent } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { ask, DATA, FORM, PAGE } from '../support/ask.ts';
import { type Crowd, type CrowdPerson, startCrowd } from '../support/crowd.ts';
import { limitOpenFiles, missingPrlimit, type StoreKind } from '../support/fleet.ts';
import { skipWithout } from '../support/missing.ts';
import { missingRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';
import { alarmsIn } from './alarms.ts';
import { startLoad } from './load.ts';
import { createFaultReport, LONG } from './report.ts';

const PEOPLE = 50;
/** Beside those that a process has open already: most of them for the connections below. */
const SPARE_DESCRIPTORS = 20;
const IDLE_CONNECTIONS = 40;
/** Drawn by templates, sent from files, or made of packages. */
const PAGES = [
  ...['/', '/connections', '/bin', '/bin/400000', '/sessions', '/docs', '/admin', '/nowhere'],
  ...['/assets/gatehouse.css', '/assets/pico.css', '/assets/flags/de.svg'],
];
const SECONDS = LONG ? 30 : 3;
/** A fifth of what a process would take by itself. */
const HEAP_MEGABYTES = 64;
const HUNGRY_PER_SECOND = 150;

const report = createFaultReport();
afterAll(() => report.print('Few file descriptors, little memory'));

describe.each<StoreKind>(['SQLite', 'Redis'])('F21 on %s', (kind) => {
  const missingStore = kind === 'Redis' ? missingRedis : undefined;
  const missing = missingPrlimit ?? missingStore;
  let crowd: Crowd;
  beforeAll(async () => {
    if (missingStore) return;
    const env = { NODE_OPTIONS: `--max-old-space-size=${HEAP_MEGABYTES}` };
    crowd = await startCrowd({ kind, processes: 1, people: PEOPLE + 1, env });
  });
  afterEach(async () => {
    if (missing) return;
    const member = crowd.member(0);
    if (member.isRunning()) await limitOpenFiles(member.program.pid, 'maximum');
    else await member.start();
  });
  afterAll(() => crowd?.close());
  /** Everybody but the one who signs out. */
  const staying = () => crowd.people.slice(1);

  test('F21: no file descriptor left: refused or hung up on, never 500; it lives, and all is well once there are some', async (context: TestContext) => {
    skipWithout(context, missing);
    await report.run(`F21: no file descriptor left on ${kind}, ${SECONDS} s`, 1, async () => {
      const { pid } = crowd.member(0).program;
      await limitOpenFiles(pid, readdirSync(`/proc/${pid}/fd`).length + SPARE_DESCRIPTORS);
      const idle = Array.from({ length: IDLE_CONNECTIONS }, () => hangOn(crowd.member(0).url));
      const load = startLoad(crowd, { perSecond: 40, people: staying() });
      await sleep(SECONDS * 1_000);
      for (const socket of idle) socket.destroy();
      await limitOpenFiles(pid, 'maximum');
      const { statuses, strangers, asked } = await load.stop();
      expect(strangers).toEqual([]);
      expect(Object.keys(statuses).filter((status) => !['0', '200', '502', '503'].includes(status))).toEqual([]);
      // Otherwise there was no want of anything.
      expect(statuses[200] ?? 0).toBeLessThan(asked);
      await areServed(crowd, staying());
      expect([crowd.member(0).program.pid, alarmsIn(crowd.output())]).toEqual([pid, []]);
      return `of ${asked} requests ${statuses[200] ?? 0} served meanwhile`;
    });
  });

  test('F21: no file descriptor left for pages and what they load, drawn for the first time: 503 where one is needed, never 500', async (context: TestContext) => {
    skipWithout(context, missing);
    await report.run(`F21: pages with no file descriptor left on ${kind}`, PAGES.length, async () => {
      const [{ pid }, { url }] = [crowd.member(0).program, crowd.member(0)];
      const cookie = staying()[0]?.cookie ?? '';
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const statuses = new Map<string, number>();
      // The connection is there already: a new one would be refused before anything is drawn.
      expect((await ask(`${url}/session`, { agent, headers: { ...DATA, cookie } })).status).toBe(200);
      await limitOpenFiles(pid, firstFree(pid));
      for (const path of PAGES) {
        const { status } = await ask(url + path, { agent, headers: { ...PAGE, cookie } });
        statuses.set(path, status);
      }
      await limitOpenFiles(pid, 'maximum');
      agent.destroy();
      expect([...statuses].filter(([, status]) => ![200, 403, 404, 503].includes(status))).toEqual([]);
      expect(statuses.get('/connections')).toBe(200);
      // Otherwise there was no want of anything.
      expect([...statuses.values()]).toContain(503);
      expect(alarmsIn(crowd.output())).toEqual([]);
      for (const path of PAGES)
        expect([path, (await ask(url + path, { headers: { ...PAGE, cookie } })).status]).toEqual([
          path,
          path === '/nowhere' ? 404 : path.startsWith('/admin') ? 403 : 200,
        ]);
      return `${[...statuses.values()].filter((status) => status === 503).length} answered with 503, the others as ever`;
    });
  });

  test('F21: no file descriptor left for a form, the first that is sent: what it asks for is done', async (context: TestContext) => {
    skipWithout(context, missing);
    await report.run(`F21: a form with no file descriptor left on ${kind}`, 1, async () => {
      const [{ pid }, { url }, person] = [crowd.member(0).program, crowd.member(0), crowd.people[0]];
      const headers = { ...DATA, cookie: person?.cookie ?? '' };
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      expect((await ask(`${url}/session`, { agent, headers })).status).toBe(200);
      await limitOpenFiles(pid, firstFree(pid));
      const body = new URLSearchParams({ _csrf: person?.csrfToken ?? '' }).toString();
      const answer = await ask(`${url}/sign-out`, { agent, method: 'POST', headers: { ...headers, ...FORM }, body });
      await limitOpenFiles(pid, 'maximum');
      agent.destroy();
      expect([answer.status, answer.body]).toEqual([303, '']);
      expect((await ask(`${url}/threads/current`, { headers })).status).toBe(401);
      return 'signed out';
    });
  });

  test(`F21: a heap of ${HEAP_MEGABYTES} MB under load: every answer is the asker's own, and nothing runs out`, async (context: TestContext) => {
    skipWithout(context, missingStore);
    await report.run(`F21: a heap of ${HEAP_MEGABYTES} MB on ${kind}, ${SECONDS} s`, 1, async () => {
      const member = crowd.member(0);
      const { pid } = member.program;
      const load = startLoad(crowd, { perSecond: HUNGRY_PER_SECOND, people: staying() });
      await sleep(SECONDS * 1_000);
      const { statuses, strangers, asked } = await load.stop();
      expect([strangers, Object.keys(statuses).filter((status) => !['200', '503'].includes(status))]).toEqual([[], []]);
      await areServed(crowd, staying());
      expect([member.isRunning(), member.program.pid, alarmsIn(crowd.output())]).toEqual([true, pid, []]);
      return `of ${asked} requests ${statuses[200] ?? 0} served`;
    });
  });
});

/** The limit is one on the descriptors' numbers: with this one none is left. */
function firstFree(pid: number): number {
  const taken = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  let free = 0;
  while (taken.has(free)) free += 1;
  return free;
}

/** Takes a file descriptor of the process for as long as it is left alone. */
function hangOn(url: string): Socket {
  const { hostname, port } = new URL(url);
  return connect(Number(port), hostname).on('error', () => undefined);
}

async function areServed(crowd: Crowd, people: readonly CrowdPerson[]): Promise<void> {
  for (const person of people) {
    await until(async () => {
      const answer = await crowd.thread(crowd.member(0), person).catch(() => undefined);
      return answer?.status === 200 && JSON.parse(answer.body).owner === person.userId;
    });
  }
}
