/**
 * R113 and R115 with real processes on both stores: idle connections are checked, even after the checking process is
 * killed.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Fleet, type FleetUser, LOGINS, type StoreKind, startFleet } from '../../support/fleet.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { until } from '../../support/until.ts';
import { createAdministrator } from '../relay/service.ts';

describe.concurrent.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let fleet: Fleet;
  let admin: Awaited<ReturnType<typeof createAdministrator>>;
  let users: FleetUser[] = [];
  beforeAll(async () => {
    if (missing) return;
    fleet = await startFleet({ kind, processes: 2, env: { CONNECTION_CHECK_SECONDS: '2' } });
    admin = await createAdministrator(fleet, fleet.storage);
    users = await Promise.all(LOGINS.map((login) => fleet.signIn(login)));
  });
  afterAll(() => fleet?.close());

  const readFailureKinds = async () => {
    const grants = await Promise.all(users.map(({ userId }) => fleet.storage.readGrant(userId)));
    return grants.map(({ failure }) => failure?.kind);
  };
  /** Resolves once the grant of each of these users has been refreshed twice more. */
  const waitForChecks = async (checkedUsers: readonly FleetUser[]) => {
    const usesBefore = new Map(checkedUsers.map(({ userId }) => [userId, fleet.tokenEndpoint.countUsesBy(userId)]));
    await until(() => [...usesBefore].every(([userId, uses]) => fleet.tokenEndpoint.countUsesBy(userId) >= uses + 2));
  };

  test('R113 each refresh token is used once, by one of two processes', { concurrent: false }, async (context) => {
    skipIfMissing(context, missing);
    await waitForChecks(users);
    const sentTokens = fleet.tokenEndpoint.uses.map(({ refreshToken }) => refreshToken);

    expect(new Set(sentTokens).size).toBe(sentTokens.length);
    // A refused refresh token would have ended its connection.
    expect(await readFailureKinds()).toEqual(users.map(() => undefined));
  });

  test('R113, F1: after a process is killed during a check, the other process checks all connections', {
    concurrent: false,
  }, async (context) => {
    skipIfMissing(context, missing);
    fleet.sandbox.refreshTokens.policy = 'grace';
    const first = fleet.member(0);
    const second = fleet.member(1);
    first.signal('SIGTERM');
    await until(() => !first.isRunning());
    const heldCall = fleet.tokenEndpoint.holdNext();
    await heldCall.prepared;
    await first.start();
    await second.kill();
    heldCall.release();
    await waitForChecks(users);

    expect(await readFailureKinds()).toEqual(users.map(() => undefined));
  });

  test('R115 announces a new scope of an app in the file once per connection, even over a restart', {
    concurrent: false,
  }, async (context) => {
    skipIfMissing(context, missing);
    const events = ['connection.scopes_missing'];
    const webhook = await admin.call('POST', '/webhooks', { url: `${fleet.sandbox.platformUrl}/hook`, events });
    const readMessages = async () =>
      (await admin.call('GET', `/webhooks/${webhook.json.id}/messages`)).json.items as { event: string }[];
    const restart = async () => {
      for (const member of fleet.members) {
        if (member.isRunning()) member.signal('SIGTERM');
        await until(() => !member.isRunning());
        await member.start();
      }
    };
    const file = String(fleet.env.CONNECTED_APPS_FILE);
    const [app] = JSON.parse(readFileSync(file, 'utf8'));
    writeFileSync(file, JSON.stringify([{ ...app, scopes: [...app.scopes, 'platform_full_access'] }]));
    await restart();
    await until(async () => (await readMessages()).length >= users.length);
    await restart();
    await waitForChecks(users);

    expect(await readMessages()).toEqual(users.map(() => expect.objectContaining({ event: events[0] })));

    const { json } = await admin.call('GET', '/connections?scopes=missing');
    expect(json.items).toEqual(users.map(() => expect.objectContaining({ missingScopes: ['platform_full_access'] })));
  });

  test('R113 finds and announces a revoked connection', { concurrent: false }, async (context) => {
    skipIfMissing(context, missing);
    const events = ['connection.reconnect_needed'];
    const webhook = await admin.call('POST', '/webhooks', { url: `${fleet.sandbox.platformUrl}/hook`, events });
    fleet.sandbox.switches.revoke({ login: 'second@example.test', clientId: 'test-platform' });
    await until(async () => (await readFailureKinds()).includes('reconnect_needed'));

    expect((await readFailureKinds()).filter((kind) => kind !== undefined)).toEqual(['reconnect_needed']);

    const readMessages = async () =>
      (await admin.call('GET', `/webhooks/${webhook.json.id}/messages`)).json.items as { event: string }[];
    // The message is stored after the grant.
    await until(async () => (await readMessages()).length > 0);

    expect(await readMessages()).toMatchObject([{ event: 'connection.reconnect_needed' }]);
  });
});
