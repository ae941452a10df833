/** Two processes on one SQLite database, for `npm test`. The long suite has the rest. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type Administrator,
  createAdministrator,
  expireRelayToken,
  relayThread,
} from '../../gatehouse/relay/service.ts';
import { type Fleet, type FleetUser, startFleet } from '../../support/fleet.ts';
import { repeatWhileStarved } from '../../support/starved.ts';
import { until } from '../../support/until.ts';

let fleet: Fleet;
let admin: Administrator;
beforeAll(async () => {
  fleet = await startFleet({ kind: 'SQLite', processes: 2 });
  admin = await createAdministrator(fleet, fleet.storage);
});
afterAll(() => fleet?.close());
beforeEach(() => {
  fleet.tokenEndpoint.lifetimeSeconds = 3_600;
});

/** Signs in a user whose access token has expired. The next one lasts an hour. */
async function withExpiredToken(login: string): Promise<FleetUser> {
  fleet.tokenEndpoint.lifetimeSeconds = 1;
  const person = await fleet.signIn(login);
  await sleep(1_100);
  fleet.tokenEndpoint.lifetimeSeconds = 3_600;
  return person;
}

const thread = (at: number, person: FleetUser) => repeatWhileStarved(() => fleet.thread(fleet.member(at), person));

test('R34, F2: requests at both processes on an expired token share one token call', async () => {
  const person = await withExpiredToken('user@example.test');
  const calls = fleet.tokenEndpoint.callCount();
  const responses = await Promise.all(Array.from({ length: 20 }, (_none, at) => thread(at % 2, person)));
  expect(responses.map(({ status }) => status)).toEqual(Array(20).fill(200));
  expect(fleet.tokenEndpoint.callCount()).toBe(calls + 1);
});

test('R38, F1: after a kill during a refresh, the other process and the restarted one serve the user', async () => {
  fleet.sandbox.refreshTokens.policy = 'grace';
  const person = await withExpiredToken('user@example.test');
  const hold = fleet.tokenEndpoint.holdNext();
  const lostRequest = fleet.thread(fleet.member(1), person).catch(() => undefined);
  await hold.prepared;
  await fleet.member(1).kill();
  hold.release();
  await lostRequest;
  expect((await thread(0, person)).status).toBe(200);
  await fleet.member(1).start();
  expect((await thread(1, person)).status).toBe(200);
  const { refreshToken, refresh, failure } = await fleet.storage.readGrant(person.userId);
  const latest = fleet.tokenEndpoint.latestOf(person.userId)?.refreshToken;
  expect({ refreshToken, refresh, failure }).toEqual({ refreshToken: latest, refresh: undefined, failure: undefined });
  fleet.sandbox.refreshTokens.policy = 'rotating';
});

test('R62: a session that ends at one process has ended at the other', async () => {
  const person = await fleet.signIn('admin@example.test');
  expect((await thread(1, person)).status).toBe(200);
  expect((await fleet.post(fleet.member(0), '/sign-out', person)).status).toBeLessThan(400);
  expect((await thread(1, person)).status).toBe(401);
});

test('R81 a relay token is valid at both processes, and at neither after it is revoked or has expired', async () => {
  const { userId } = await fleet.signIn('second@example.test');
  const [revoked, expired] = [
    await admin.createRelayToken({ assertUser: true }),
    await admin.createRelayToken({ assertUser: true, name: 'expiring' }),
  ];
  const statuses = (token: string) =>
    Promise.all(
      fleet.members.map(async (member) => {
        const call = () => relayThread(member, token, { 'gatehouse-user': userId }, '?app=platform');
        return (await repeatWhileStarved(call)).status;
      }),
    );
  for (const { token } of [revoked, expired]) expect(await statuses(token)).toEqual([200, 200]);
  expect((await admin.call('DELETE', `/relay-tokens/${revoked.id}`)).status).toBe(204);
  await expireRelayToken(fleet.storage, expired.id);
  for (const { token } of [revoked, expired]) {
    await until(async () => (await statuses(token)).every((status) => status === 401));
  }
});

test('F18: a process that gets SIGTERM completes its requests, and the other continues', async () => {
  const person = await fleet.signIn('second@example.test');
  const hits = () => fleet.sandbox.requests.count('GET /1/threads/current');
  const before = hits();
  const off = fleet.sandbox.faults.set({ listener: 'platform', kind: 'slow', ms: 500 });
  const pendingRequest = fleet.thread(fleet.member(1), person);
  await until(() => hits() > before);
  fleet.member(1).signal('SIGTERM');
  expect((await pendingRequest).status).toBe(200);
  off();
  expect(await fleet.member(1).program.ended).toEqual({ status: 0, signal: null });
  expect((await thread(0, person)).status).toBe(200);
});
