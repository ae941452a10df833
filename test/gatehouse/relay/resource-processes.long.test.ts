/** R112 with two processes, on both stores: refreshes for several resources run one after the other. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Fleet, type FleetUser, type StoreKind, startFleet } from '../../support/fleet.ts';
import { sandboxApp } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { createAdministrator } from './service.ts';

const REPORTS = 'urn:example:reports';

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let fleet: Fleet;
  let user: FleetUser;
  let token: string;
  beforeAll(async () => {
    if (missing) return;
    fleet = await startFleet({
      kind,
      processes: 2,
      apps: (urls) => [sandboxApp(urls, 'platform', { resources: [urls.sandbox.platformUrl, REPORTS] })],
    });
    user = await fleet.signIn('user@example.test');
    const admin = await createAdministrator(fleet, fleet.storage);
    ({ token } = await admin.createRelayToken({ assertUser: true }));
  });
  afterAll(() => fleet?.close());

  /** Exchanges the user for an access token of the resource at this process. */
  const exchangeAt = async (process: number, resource: string) => {
    const response = await sendRequest(`${fleet.member(process).url}/relay/token`, {
      method: 'POST',
      headers: { ...ACCEPT_JSON, ...FORM_BODY, host: new URL(fleet.url).host, authorization: `Bearer ${token}` },
      body: new URLSearchParams({
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        subject_token: user.userId,
        subject_token_type: 'urn:gatehouse:token-type:user',
        resource,
      }).toString(),
    });
    expect(response.status).toBe(200);
    return String(JSON.parse(response.body).access_token);
  };

  test('R31 R34 R112 two processes send no refresh token twice, and each refreshes once for a resource', async (context) => {
    skipIfMissing(context, missing);
    const { accessToken: storedToken } = await fleet.storage.readGrant(user.userId);
    const usesBefore = fleet.tokenEndpoint.uses.length;

    const exchangeSixTimes = (process: number, resource: string) =>
      Promise.all(Array.from({ length: 6 }, () => exchangeAt(process, resource)));
    const issuedTokens = await Promise.all([
      exchangeSixTimes(0, fleet.sandbox.platformUrl),
      exchangeSixTimes(0, REPORTS),
      exchangeSixTimes(1, fleet.sandbox.platformUrl),
      exchangeSixTimes(1, REPORTS),
    ]);

    for (const tokens of issuedTokens) expect(new Set(tokens).size).toBe(1);
    expect(issuedTokens.flat()).not.toContain(storedToken);
    const sentTokens = fleet.tokenEndpoint.uses.slice(usesBefore).map(({ refreshToken }) => refreshToken);
    // One refresh of each process for each resource.
    expect(sentTokens).toHaveLength(4);
    expect(new Set(sentTokens).size).toBe(4);
    expect(fleet.tokenEndpoint.refusalCount()).toBe(0);
    expect((await fleet.storage.readGrant(user.userId)).accessToken).toBe(storedToken);
    expect((await fleet.thread(fleet.member(1), user)).status).toBe(200);
  });
});
