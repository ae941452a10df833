/** R112 with two processes, on both stores: refreshes for several resources run one after the other. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Fleet, type FleetUser, type StoreKind, startFleet } from '../../support/fleet.ts';
import { sandboxApp } from '../../support/gatehouse.ts';
import { skipWithout } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { createAdministrator } from './service.ts';

const REPORTS = 'urn:example:reports';

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let fleet: Fleet;
  let person: FleetUser;
  let token: string;
  beforeAll(async () => {
    if (missing) return;
    fleet = await startFleet({
      ...{ kind, processes: 2 },
      apps: (parts) => [sandboxApp(parts, 'platform', { resources: [parts.sandbox.platformUrl, REPORTS] })],
    });
    person = await fleet.signIn('user@example.test');
    ({ token } = await (await createAdministrator(fleet, fleet.storage)).createRelayToken({ assertUser: true }));
  });
  afterAll(() => fleet?.close());

  const exchangeAt = async (at: number, resource: string) => {
    const response = await sendRequest(`${fleet.member(at).url}/relay/token`, {
      method: 'POST',
      headers: { ...ACCEPT_JSON, ...FORM_BODY, host: new URL(fleet.url).host, authorization: `Bearer ${token}` },
      body: new URLSearchParams({
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        ...{ subject_token: person.userId, subject_token_type: 'urn:gatehouse:token-type:user', resource },
      }).toString(),
    });
    expect(response.status).toBe(200);
    return String(JSON.parse(response.body).access_token);
  };

  test('R31 R34 R112 two processes send no refresh token twice, and each refreshes once for a resource', async (context) => {
    skipWithout(context, missing);
    const { accessToken: storedToken } = await fleet.storage.readGrant(person.userId);
    const before = fleet.tokenEndpoint.uses.length;
    const exchanges = [0, 1].flatMap((at) =>
      [fleet.sandbox.platformUrl, REPORTS].map((resource) => ({ at, resource })),
    );
    const issued = await Promise.all(
      exchanges.map(async ({ at, resource }) => ({
        ...{ at, resource },
        tokens: await Promise.all(Array.from({ length: 6 }, () => exchangeAt(at, resource))),
      })),
    );
    for (const { tokens } of issued) expect(new Set(tokens).size).toBe(1);
    expect(new Set(issued.flatMap(({ tokens }) => tokens)).has(storedToken)).toBe(false);
    const sent = fleet.tokenEndpoint.uses.slice(before).map(({ refreshToken }) => refreshToken);
    expect(sent).toHaveLength(exchanges.length);
    expect(new Set(sent).size).toBe(sent.length);
    expect(fleet.tokenEndpoint.refusalCount()).toBe(0);
    expect((await fleet.storage.readGrant(person.userId)).accessToken).toBe(storedToken);
    expect((await fleet.thread(fleet.member(1), person)).status).toBe(200);
  });
});
