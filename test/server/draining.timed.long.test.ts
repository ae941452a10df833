/** R90: two processes restarted one after the other, behind a load balancer that polls `/readyz` and never retries. */

import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sharedAssets } from '../../src/shared/pages/assets.ts';
import { type Fleet, type FleetUser, LOGINS, type Member, startFleet } from '../support/fleet.ts';
import { type Haproxy, type Mode, missingHaproxy, startHaproxy } from '../support/haproxy.ts';
import { skipIfMissing } from '../support/missing.ts';
import { JSON_BODY, sendRequest } from '../support/send-request.ts';
import { isStarved } from '../support/starved.ts';
import { until } from '../support/until.ts';

/** Time for many polls of the balancer, which may be late on a busy machine. */
const DELAY_SECONDS = 8;
const KINDS = ['GET /threads/current', 'POST /bin', 'GET /session'];

describe('R90 with SHUTDOWN_DELAY_SECONDS, behind an HAProxy that polls once a second', () => {
  let fleet: Fleet;
  let haproxy: Haproxy;
  let users: FleetUser[];
  beforeAll(async () => {
    if (missingHaproxy) return;
    const env = { TRUSTED_PROXIES: '127.0.0.1', SHUTDOWN_DELAY_SECONDS: String(DELAY_SECONDS) };
    fleet = await startFleet({ kind: 'SQLite', processes: 2, env });
    haproxy = await startHaproxy(
      fleet.members.map((member) => ({
        port: Number(member.env.PORT),
        managementPort: Number(member.env.MANAGEMENT_PORT),
      })),
    );
    // Short, so that tokens are refreshed throughout the test.
    fleet.tokenEndpoint.lifetimeSeconds = 2;
    users = [];
    for (const login of LOGINS) users.push(await fleet.signIn(login));
  });
  afterAll(async () => {
    await haproxy?.stop();
    await fleet?.close();
  });

  const readiness = (member: Member) => sendRequest(`http://127.0.0.1:${member.env.MANAGEMENT_PORT}/readyz`);
  /** Waits until the balancer shows this status of a process, for both modes. */
  const untilSeen = (index: number, status: string) =>
    until(async () => {
      const statusOverHttp = await haproxy.statusOf('http', index);
      const statusOverTcp = await haproxy.statusOf('tcp', index);
      return statusOverHttp === status && statusOverTcp === status;
    });

  /** The requests of one user's client over kept connections, counted by outcome. */
  async function call(
    user: FleetUser,
    mode: Mode,
    outcomes: Record<string, number>,
    isOver: () => boolean,
  ): Promise<void> {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const headers = { accept: 'application/json', host: new URL(fleet.url).host, cookie: user.cookie };
    for (let turn = 0; !isOver(); turn += 1) {
      const kind = KINDS[turn % KINDS.length] ?? '';
      const [method = '', path = ''] = kind.split(' ');
      const postHeaders = { ...JSON_BODY, 'x-csrf-token': user.csrfToken };
      const body = method === 'POST' ? { body: JSON.stringify({ bins: ['45717360'] }) } : {};
      const request = { method, agent, headers: { ...headers, ...(method === 'POST' && postHeaders) }, ...body };
      const response = await sendRequest(haproxy.urls[mode] + path, request).catch(({ message }: Error) => ({
        status: 0,
        body: message,
      }));
      if (isStarved(response)) continue;
      const isExpected = path === '/session' ? response.body.includes(user.userId) : response.status === 200;
      const outcome = `${mode} ${kind} ${isExpected ? 'as expected' : `${response.status} ${response.body.slice(0, 200)}`}`;
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      await sleep(5);
    }
    agent.destroy();
  }

  test('no request and no refresh is lost when both processes are restarted one after the other', async (context) => {
    skipIfMissing(context, missingHaproxy);
    await Promise.all([untilSeen(0, 'UP'), untilSeen(1, 'UP')]);
    let isOver = false;
    const outcomes: Record<string, number> = {};
    const callers = (['http', 'tcp'] as const).flatMap((mode) =>
      users.map((user) => call(user, mode, outcomes, () => isOver)),
    );
    for (const [index, member] of fleet.members.entries()) {
      member.signal('SIGTERM');
      expect(await member.program.ended).toEqual({ status: 0, signal: null });
      await untilSeen(index, 'DOWN');
      await member.start();
      await untilSeen(index, 'UP');
    }
    isOver = true;
    await Promise.all(callers);
    await fleet.tokenEndpoint.untilIdle();
    const expected = ['http', 'tcp'].flatMap((mode) => KINDS.map((kind) => `${mode} ${kind} as expected`));
    expect(Object.keys(outcomes).toSorted()).toEqual(expected.toSorted());

    for (const kind of expected) expect(outcomes[kind]).toBeGreaterThan(50);
    expect(fleet.tokenEndpoint.refusalCount()).toBe(0);

    for (const { userId } of users) {
      const { refreshToken } = await fleet.storage.readGrant(userId);
      expect(refreshToken).toBe(fleet.tokenEndpoint.latestOf(userId)?.refreshToken);
    }
  });

  test('a draining process reports it, serves each request, and ends the connection with the response', async (context) => {
    skipIfMissing(context, missingHaproxy);
    const member = fleet.member(0);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const session = () => sendRequest(`${member.url}/session`, { agent, headers: { accept: 'application/json' } });
    expect((await session()).headers.connection).toBe('keep-alive');

    member.signal('SIGTERM');
    await until(async () => (await readiness(member)).status === 503);
    expect((await readiness(member)).body).toBe('{"ready":false,"reason":"draining"}\n');

    // The first request uses the connection that is already open, the second a new one.
    for (let count = 0; count < 2; count += 1) {
      const { status, headers } = await session();
      expect([status, headers.connection]).toEqual([200, 'close']);
    }
    const headers = { accept: '*/*', host: new URL(fleet.url).host, cookie: users[0]?.cookie ?? '' };
    // A page, a file, a response of the platform, and a refusal.
    for (const [path, expected] of [
      ['/', 200],
      [`${sharedAssets().path}/pico.css`, 200],
      ['/threads/current', 200],
      ['/nothing', 404],
    ]) {
      const response = await sendRequest(`${member.url}${path}`, { agent, headers });
      expect([path, response.status, response.headers.connection]).toEqual([path, expected, 'close']);
    }
    expect(await member.program.ended).toEqual({ status: 0, signal: null });

    agent.destroy();
    await member.start();
  });
});
