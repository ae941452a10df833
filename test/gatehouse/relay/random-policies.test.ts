/** With random policies: the routes allow and refuse the same calls as the function, by the same rule. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RELAY_SCOPES, type RelayScope } from '../../../src/gatehouse/relay/policy.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { JSON_BODY, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, assertionOf, bearer, createAdministrator, exchange, relayThread } from './service.ts';

const RUNS = 150;

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let cookie: string;
let userId: string;
let disabledId: string;
let apiToken: string;
/** Ids of service accounts, by app. */
const accounts: Record<string, string> = {};
beforeAll(async () => {
  site = await startSite({
    sandbox: { accessTokenSeconds: 3_600 },
    apps: (at) => [sandboxApp(at, 'platform'), sandboxApp(at, 'second', { signIn: undefined })],
    env: { TRUSTED_PROXIES: '127.0.0.1' },
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  const { agent } = await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
  cookie = agent.cookies.header(site.url);
  ({ userId } = await sessionOf(site, agent));
  const { agent: second } = await signIn(site, 'second@example.test', { path: '/sign-in?app=platform' });
  ({ userId: disabledId } = await sessionOf(site, second));
  // The sandbox's platform accepts any access token as an API token.
  apiToken = (await storage.readGrant(userId)).accessToken;
  for (const app of ['platform', 'second']) {
    const { json } = await admin.call('POST', '/service-accounts', { name: app, app, apiToken });
    accounts[app] = String(json.id);
  }
  expect((await admin.call('POST', `/users/${disabledId}/disable`)).status).toBeLessThan(300);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

interface RandomCall {
  scope: RelayScope;
  app: string;
  /** A proven user, a named one, a disabled one who is named, or a service account; for connections, all users. */
  subject: 'proven' | 'named' | 'disabled' | 'account';
  address: string;
}

const policies = () =>
  fc.record({
    scopes: fc.subarray([...RELAY_SCOPES], { minLength: 1 }),
    apps: fc.subarray(['platform', 'second']),
    users: fc.oneof(
      fc.constantFrom('all', 'none'),
      fc.constantFrom([userId], [userId, disabledId], ['uAAAAAAAAAAAAAAAAAAAAAA']),
    ),
    networks: fc.subarray(['10.0.0.0/8', '192.0.2.0/24']),
    assertUser: fc.boolean(),
  });
const calls = fc.record<RandomCall>({
  scope: fc.constantFrom(...RELAY_SCOPES),
  app: fc.constantFrom('platform', 'second'),
  subject: fc.constantFrom('proven', 'proven', 'named', 'disabled', 'account'),
  address: fc.constantFrom('10.1.1.1', '192.0.2.9', '198.51.100.1'),
});

/** The call as a service behind our proxy makes it. Nothing can be exchanged for a service account. */
async function make({ scope, app, subject, address }: RandomCall, token: string): Promise<ReceivedResponse> {
  const from = { 'x-forwarded-for': address };
  if (scope === 'bin:read')
    return sendRequest(`${site.url}/relay/bin/45717360`, { headers: { ...bearer(token), ...from } });
  const id = subject === 'disabled' ? disabledId : userId;
  const assertion = subject === 'proven' ? await assertionOf(site, cookie) : '';
  if (scope === 'threads:read') {
    const named =
      subject === 'account' ? { 'gatehouse-service-account': accounts[app] ?? '' } : { 'gatehouse-user': id };
    const headers = subject === 'proven' ? { 'gatehouse-user-assertion': assertion } : named;
    return relayThread(site, token, { ...headers, ...from }, `?app=${app}`);
  }
  if (scope === 'connections:read') {
    const proof = subject === 'proven' ? { 'gatehouse-user-assertion': assertion } : {};
    const user = subject === 'named' || subject === 'disabled' ? `&user=${id}` : '';
    return sendRequest(`${site.url}/relay/connections?app=${app}${user}`, {
      headers: { ...bearer(token), ...proof, ...from },
    });
  }
  if (scope === 'connect_links:create') {
    const proof = subject === 'proven' ? { 'gatehouse-user-assertion': assertion } : {};
    const body = JSON.stringify({ app, ...(subject === 'proven' ? {} : { user: id }) });
    const headers = { ...bearer(token), ...JSON_BODY, ...proof, ...from };
    return sendRequest(`${site.url}/relay/connect-links`, { method: 'POST', headers, body });
  }
  const type = subject === 'proven' ? 'urn:ietf:params:oauth:token-type:jwt' : 'urn:gatehouse:token-type:user';
  const form = { subject_token: subject === 'proven' ? assertion : id, subject_token_type: type };
  return exchange(site, token, { ...form, audience: app }, from);
}

function questionOf({ scope, app, subject, address }: RandomCall) {
  if (subject === 'account' && scope === 'connections:read') return { scope, app, address };
  if (subject === 'account' && (scope === 'threads:read' || scope === 'bin:read'))
    return { scope, app, address, serviceAccount: accounts[app] };
  const user = subject === 'disabled' ? disabledId : userId;
  return { scope, app, address, user, proof: subject === 'proven' ? 'assertion' : 'none' };
}

/** The rule that refused the call; undefined if the policy allowed it, even if the user has not connected the app. */
function refusedBy(response: ReceivedResponse): string | undefined {
  const body = JSON.parse(response.body);
  return /^Rule (\w+):/.exec(body.detail ?? body.error_description ?? '')?.[1];
}

test('R81 the policy function and the routes agree on every policy and call', async () => {
  let allowed = 0;
  await fc.assert(
    fc.asyncProperty(policies(), calls, async (policy, call) => {
      const { id, token } = await admin.createRelayToken(policy);
      const { json: explained } = await admin.call('POST', '/policy/explain', { relayToken: id, ...questionOf(call) });
      const response = await make(call, token);
      expect([refusedBy(response), refusedBy(response) === undefined]).toEqual([explained.rule, explained.allowed]);
      // An allowed call succeeds unless the user has not connected the app.
      const asAccount = call.subject === 'account' && call.scope === 'threads:read';
      const creates = call.scope === 'connect_links:create';
      const hasGrant =
        call.app === 'platform' || asAccount || creates || ['bin:read', 'connections:read'].includes(call.scope);
      if (explained.allowed && hasGrant) expect(response.status).toBe(creates ? 201 : 200);
      if (explained.allowed) allowed += 1;
    }),
    { numRuns: RUNS },
  );
  expect(allowed).toBeGreaterThan(0);
});
