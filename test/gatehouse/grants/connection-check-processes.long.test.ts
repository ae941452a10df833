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

  const failures = async () =>
    (await Promise.all(users.map(({ userId }) => fleet.storage.readGrant(userId)))).map(({ failure }) => failure?.kind);
  /** Resolves once the grants of these were refreshed twice more. */
  const checked = async (these: readonly FleetUser[]) => {
    const before = new Map(these.map(({ userId }) => [userId, fleet.tokenEndpoint.countUsesBy(userId)]));
    await until(() => [...before].every(([userId, uses]) => fleet.tokenEndpoint.countUsesBy(userId) >= uses + 2));
  };

  test('R113 each refresh token is used once, by one of two processes', { concurrent: false }, async (context) => {
    skipIfMissing(context, missing);
    await checked(users);
    const sent = fleet.tokenEndpoint.uses.map(({ refreshToken }) => refreshToken);
    expect(new Set(sent).size).toBe(sent.length);
    // A refused refresh token would have ended its connection.
    expect(await failures()).toEqual(users.map(() => undefined));
  });

  test('R113, F1: after a kill during a check, the other process checks the rest', {
    concurrent: false,
  }, async (context) => {
    skipIfMissing(context, missing);
    fleet.sandbox.refreshTokens.policy = 'grace';
    const [first, second] = [fleet.member(0), fleet.member(1)];
    first.signal('SIGTERM');
    await until(() => !first.isRunning());
    const held = fleet.tokenEndpoint.holdNext();
    await held.prepared;
    await first.start();
    await second.kill();
    held.release();
    await checked(users);
    expect(await failures()).toEqual(users.map(() => undefined));
  });

  test('R115 announces a new scope of an app in the file once per connection, even over a restart', {
    concurrent: false,
  }, async (context) => {
    skipIfMissing(context, missing);
    const events = ['connection.scopes_missing'];
    const webhook = await admin.call('POST', '/webhooks', { url: `${fleet.sandbox.platformUrl}/hook`, events });
    const messages = async () =>
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
    await until(async () => (await messages()).length >= users.length);
    await restart();
    await checked(users);
    expect(await messages()).toEqual(users.map(() => expect.objectContaining({ event: events[0] })));
    const { json } = await admin.call('GET', '/connections?scopes=missing');
    expect(json.items).toEqual(users.map(() => expect.objectContaining({ missingScopes: ['platform_full_access'] })));
  });

  test('R113 finds and announces a revoked connection', { concurrent: false }, async (context) => {
    skipIfMissing(context, missing);
    const events = ['connection.reconnect_needed'];
    const webhook = await admin.call('POST', '/webhooks', { url: `${fleet.sandbox.platformUrl}/hook`, events });
    fleet.sandbox.switches.revoke({ login: 'second@example.test', clientId: 'test-platform' });
    await until(async () => (await failures()).includes('reconnect_needed'));
    expect((await failures()).filter((one) => one !== undefined)).toEqual(['reconnect_needed']);
    const messages = async () =>
      (await admin.call('GET', `/webhooks/${webhook.json.id}/messages`)).json.items as { event: string }[];
    // The message is stored after the grant.
    await until(async () => (await messages()).length > 0);
    expect(await messages()).toMatchObject([{ event: 'connection.reconnect_needed' }]);
  });
});
