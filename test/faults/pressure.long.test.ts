/** F21: with too few file descriptors or too little memory, processes refuse requests, survive, and recover. */

import { readdirSync } from 'node:fs';
import { Agent } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { sharedAssets } from '../../src/shared/pages/assets.ts';
import { type Crowd, type CrowdUser, startCrowd } from '../support/crowd.ts';
import { limitOpenFiles, missingPrlimit, type StoreKind } from '../support/fleet.ts';
import { skipIfMissing } from '../support/missing.ts';
import { missingRedis } from '../support/redis-server.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, sendRequest } from '../support/send-request.ts';
import { until } from '../support/until.ts';
import { alarmsIn } from './alarms.ts';
import { startLoad } from './load.ts';
import { createFaultReport, LONG } from './report.ts';

const USER_COUNT = 50;
/** Descriptors in addition to those that are open. The idle connections use most of them. */
const SPARE_DESCRIPTORS = 20;
const IDLE_CONNECTIONS = 40;
/** Pages from templates, files and packages. */
const PAGES = [
  '/',
  '/connections',
  '/bin',
  '/bin/400000',
  '/sessions',
  '/docs',
  '/admin',
  '/nowhere',
  `${sharedAssets().path}/gatehouse.css`,
  `${sharedAssets().path}/pico.css`,
  `${sharedAssets().path}/flags/de.svg`,
];
const SECONDS = LONG ? 30 : 3;
/** A fifth of the memory that a process would otherwise use. */
const HEAP_MEGABYTES = 64;
const HEAVY_LOAD_PER_SECOND = 150;

const report = createFaultReport();
afterAll(() => report.print('Few file descriptors, little memory'));

describe.each<StoreKind>(['SQLite', 'Redis'])('F21 on %s', (kind) => {
  const missingStore = kind === 'Redis' ? missingRedis : undefined;
  const missing = missingPrlimit ?? missingStore;
  let crowd: Crowd;
  beforeAll(async () => {
    if (missingStore) return;
    const env = { NODE_OPTIONS: `--max-old-space-size=${HEAP_MEGABYTES}` };
    crowd = await startCrowd({ kind, processes: 1, users: USER_COUNT + 1, env });
  });
  afterEach(async () => {
    if (missing) return;
    const member = crowd.member(0);
    if (member.isRunning()) await limitOpenFiles(member.program.pid, 'maximum');
    else await member.start();
  });
  afterAll(() => crowd?.close());
  /** All users but the one who signs out. */
  const signedInUsers = () => crowd.users.slice(1);

  test('F21: no free file descriptor: requests are refused or closed, never 500; the process survives and recovers', async (context: TestContext) => {
    skipIfMissing(context, missing);
    await report.run(`F21: no free file descriptor on ${kind}, ${SECONDS} s`, 1, async () => {
      const { pid } = crowd.member(0).program;
      await limitOpenFiles(pid, readdirSync(`/proc/${pid}/fd`).length + SPARE_DESCRIPTORS);
      const idleSockets = Array.from({ length: IDLE_CONNECTIONS }, () => openIdleConnection(crowd.member(0).url));
      const load = startLoad(crowd, { perSecond: 40, users: signedInUsers() });
      await sleep(SECONDS * 1_000);
      for (const socket of idleSockets) socket.destroy();
      await limitOpenFiles(pid, 'maximum');
      const { statuses, misled, requests } = await load.stop();
      expect(misled).toEqual([]);
      expect(Object.keys(statuses).filter((status) => !['0', '200', '502', '503'].includes(status))).toEqual([]);
      // Otherwise there were enough descriptors.
      expect(statuses[200] ?? 0).toBeLessThan(requests);
      await expectServed(crowd, signedInUsers());
      expect([crowd.member(0).program.pid, alarmsIn(crowd.output())]).toEqual([pid, []]);

      return `of ${requests} requests ${statuses[200] ?? 0} served meanwhile`;
    });
  });

  test('F21: no free file descriptor for the first requests of pages and assets: 503 if one is needed, never 500', async (context: TestContext) => {
    skipIfMissing(context, missing);
    await report.run(`F21: pages with no free file descriptor on ${kind}`, PAGES.length, async () => {
      const { url, program } = crowd.member(0);
      const { pid } = program;
      const cookie = signedInUsers()[0]?.cookie ?? '';
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const statuses = new Map<string, number>();
      // Reuse a connection: a new one would be refused at once.
      expect((await sendRequest(`${url}/session`, { agent, headers: { ...ACCEPT_JSON, cookie } })).status).toBe(200);

      await limitOpenFiles(pid, lowestFreeDescriptor(pid));
      for (const path of PAGES) {
        const { status } = await sendRequest(url + path, { agent, headers: { ...ACCEPT_HTML, cookie } });
        statuses.set(path, status);
      }
      await limitOpenFiles(pid, 'maximum');
      agent.destroy();
      expect([...statuses].filter(([, status]) => ![200, 403, 404, 503].includes(status))).toEqual([]);
      expect(statuses.get('/connections')).toBe(200);
      // Otherwise there were enough descriptors.
      expect([...statuses.values()]).toContain(503);
      expect(alarmsIn(crowd.output())).toEqual([]);

      for (const path of PAGES) {
        const { status } = await sendRequest(url + path, { headers: { ...ACCEPT_HTML, cookie } });
        expect([path, status]).toEqual([path, usualStatusOf(path)]);
      }
      const refused = [...statuses.values()].filter((status) => status === 503);
      return `${refused.length} responses with 503, the others unchanged`;
    });
  });

  test('F21: no free file descriptor for the first form: the form still takes effect', async (context: TestContext) => {
    skipIfMissing(context, missing);
    await report.run(`F21: a form with no free file descriptor on ${kind}`, 1, async () => {
      const { url, program } = crowd.member(0);
      const { pid } = program;
      const [user] = crowd.users;
      const headers = { ...ACCEPT_JSON, cookie: user?.cookie ?? '' };
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      expect((await sendRequest(`${url}/session`, { agent, headers })).status).toBe(200);

      await limitOpenFiles(pid, lowestFreeDescriptor(pid));
      const body = new URLSearchParams({ _csrf: user?.csrfToken ?? '' }).toString();
      const response = await sendRequest(`${url}/sign-out`, {
        agent,
        method: 'POST',
        headers: { ...headers, ...FORM_BODY, ...ACCEPT_HTML },
        body,
      });
      await limitOpenFiles(pid, 'maximum');
      agent.destroy();
      expect([response.status, response.body]).toEqual([303, '']);
      expect((await sendRequest(`${url}/threads/current`, { headers })).status).toBe(401);

      return 'signed out';
    });
  });

  test(`F21: a heap of ${HEAP_MEGABYTES} MB under load: every response belongs to its user, and memory suffices`, async (context: TestContext) => {
    skipIfMissing(context, missingStore);
    await report.run(`F21: a heap of ${HEAP_MEGABYTES} MB on ${kind}, ${SECONDS} s`, 1, async () => {
      const member = crowd.member(0);
      const { pid } = member.program;
      const load = startLoad(crowd, { perSecond: HEAVY_LOAD_PER_SECOND, users: signedInUsers() });
      await sleep(SECONDS * 1_000);
      const { statuses, misled, requests } = await load.stop();
      expect([misled, Object.keys(statuses).filter((status) => !['200', '503'].includes(status))]).toEqual([[], []]);
      await expectServed(crowd, signedInUsers());
      expect([member.isRunning(), member.program.pid, alarmsIn(crowd.output())]).toEqual([true, pid, []]);

      return `of ${requests} requests ${statuses[200] ?? 0} served`;
    });
  });
});

/** The status of this page for a user who is not an administrator. */
function usualStatusOf(path: string): number {
  if (path === '/nowhere') return 404;
  return path.startsWith('/admin') ? 403 : 200;
}

/** Returns the lowest free descriptor number. As the limit, it leaves no free descriptor. */
function lowestFreeDescriptor(pid: number): number {
  const used = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  let free = 0;
  while (used.has(free)) free += 1;
  return free;
}

/** Opens an idle connection, which uses a file descriptor of the process. */
function openIdleConnection(url: string): Socket {
  const { hostname, port } = new URL(url);
  return connect(Number(port), hostname).on('error', () => undefined);
}

async function expectServed(crowd: Crowd, users: readonly CrowdUser[]): Promise<void> {
  for (const user of users) {
    await until(async () => {
      const response = await crowd.thread(crowd.member(0), user).catch(() => undefined);
      return response?.status === 200 && JSON.parse(response.body).owner === user.userId;
    });
  }
}
