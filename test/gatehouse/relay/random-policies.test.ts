/** Random policies and calls: each route decides as the policy test explains, by the same rule. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RELAY_SCOPES, type RelayScope } from '../../../src/gatehouse/relay/policy.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { JSON_BODY, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, assertionOf, bearer, createAdministrator, exchange, relayThread } from './service.ts';

const RUNS = 150;

const ROUTES = [{ name: 'thread', method: 'GET', path: '/1/threads/{id}' }];

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let cookie: string;
let userId: string;
let disabledId: string;
let apiToken: string;
/** Ids of service accounts, by app. */
const accountIds: Record<string, string> = {};
beforeAll(async () => {
  site = await startSite({
    sandbox: { accessTokenSeconds: 3_600 },
    apps: (urls) => [
      sandboxApp(urls, 'platform', { routes: ROUTES }),
      sandboxApp(urls, 'second', { signIn: undefined, routes: ROUTES }),
    ],
    env: { TRUSTED_PROXIES: '127.0.0.1' },
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  const { agent } = await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
  cookie = agent.cookies.header(site.url);
  ({ userId } = await sessionOf(site, agent));
  const { agent: secondUser } = await signIn(site, 'second@example.test', { path: '/sign-in?app=platform' });
  ({ userId: disabledId } = await sessionOf(site, secondUser));
  // The sandbox's platform accepts any access token as an API token.
  apiToken = (await storage.readGrant(userId)).accessToken;
  for (const app of ['platform', 'second']) {
    const { json } = await admin.call('POST', '/service-accounts', { name: app, app, apiToken });
    accountIds[app] = String(json.id);
  }
  expect((await admin.call('POST', `/users/${disabledId}/disable`)).status).toBeLessThan(300);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const ROUTE_PATHS = { 'current-thread': '/1/threads/current', thread: '/1/threads/unknown' };

interface RandomCall {
  scope: RelayScope;
  app: string;
  /** For `api:call`. */
  route: keyof typeof ROUTE_PATHS;
  /** For lists of connections, `account` stands for all users. */
  subject: 'proven' | 'named' | 'disabled' | 'account';
  address: string;
}

/** A function, since the ids of the users are known only after the start. */
const anyPolicy = () =>
  fc.record({
    scopes: fc.subarray([...RELAY_SCOPES], { minLength: 1 }),
    apps: fc.subarray(['platform', 'second']),
    users: fc.oneof(
      fc.constantFrom('all', 'none'),
      fc.constantFrom([userId], [userId, disabledId], ['uAAAAAAAAAAAAAAAAAAAAAA']),
    ),
    networks: fc.subarray(['10.0.0.0/8', '192.0.2.0/24']),
    routes: fc.oneof(fc.constant('reads'), fc.subarray(['current-thread', 'thread'])),
    assertUser: fc.boolean(),
  });
const anyCall = fc.record<RandomCall>({
  scope: fc.constantFrom(...RELAY_SCOPES),
  app: fc.constantFrom('platform', 'second'),
  route: fc.constantFrom('current-thread', 'thread'),
  subject: fc.constantFrom('proven', 'proven', 'named', 'disabled', 'account'),
  address: fc.constantFrom('10.1.1.1', '192.0.2.9', '198.51.100.1'),
});

/** Makes the call as a service behind our proxy does. */
async function makeCall({ scope, app, route, subject, address }: RandomCall, token: string): Promise<ReceivedResponse> {
  const isProven = subject === 'proven';
  const assertion = isProven ? await assertionOf(site, cookie) : '';
  const proof: Record<string, string> = isProven ? { 'gatehouse-user-assertion': assertion } : {};
  const id = subject === 'disabled' ? disabledId : userId;
  const forwarded = { 'x-forwarded-for': address };
  const headers = { ...bearer(token), ...forwarded };
  switch (scope) {
    case 'bin:read':
      return sendRequest(`${site.url}/relay/bin/45717360`, { headers });
    case 'threads:read': {
      if (isProven) return relayThread(site, token, { ...proof, ...forwarded }, `?app=${app}`);
      const name =
        subject === 'account' ? { 'gatehouse-service-account': accountIds[app] ?? '' } : { 'gatehouse-user': id };
      return relayThread(site, token, { ...name, ...forwarded }, `?app=${app}`);
    }
    case 'api:call':
      return sendRequest(`${site.url}/relay/api/${app}${ROUTE_PATHS[route]}`, {
        headers: {
          ...headers,
          ...(isProven
            ? proof
            : subject === 'account'
              ? { 'gatehouse-service-account': accountIds[app] ?? '' }
              : { 'gatehouse-user': id }),
        },
      });
    case 'connections:read': {
      const isNamed = subject === 'named' || subject === 'disabled';
      const query = isNamed ? `?app=${app}&user=${id}` : `?app=${app}`;
      return sendRequest(`${site.url}/relay/connections${query}`, { headers: { ...headers, ...proof } });
    }
    case 'connect_links:create':
      return sendRequest(`${site.url}/relay/connect-links`, {
        method: 'POST',
        headers: { ...headers, ...JSON_BODY, ...proof },
        body: JSON.stringify(isProven ? { app } : { app, userId: id }),
      });
    case 'token:exchange': {
      // No token can be exchanged for a service account, so the user is named instead.
      const form = isProven
        ? { subject_token: assertion, subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' }
        : { subject_token: id, subject_token_type: 'urn:gatehouse:token-type:user' };
      return exchange(site, token, { ...form, audience: app }, forwarded);
    }
  }
}

/** The call as the policy test takes it. */
function explainedCallOf({ scope, app, route, subject, address }: RandomCall) {
  if (scope === 'api:call' && subject === 'account')
    return { scope, app, route, address, serviceAccount: accountIds[app] };
  if (subject === 'account' && scope === 'connections:read') return { scope, app, address };
  if (subject === 'account' && (scope === 'threads:read' || scope === 'bin:read'))
    return { scope, app, address, serviceAccount: accountIds[app] };
  const id = subject === 'disabled' ? disabledId : userId;
  const proof = subject === 'proven' ? 'assertion' : 'none';
  return { scope, app, ...(scope === 'api:call' && { route }), address, userId: id, proof };
}

/** The rule that refused the call; undefined if the policy allowed it, even if the user has not connected the app. */
function refusingRuleOf(response: ReceivedResponse): string | undefined {
  const body = JSON.parse(response.body);
  return /^Rule (\w+):/.exec(body.detail ?? body.error_description ?? '')?.[1];
}

test('R81 the policy test and the routes agree on every policy and call', async () => {
  let allowedCount = 0;
  await fc.assert(
    fc.asyncProperty(anyPolicy(), anyCall, async (policy, call) => {
      const { id, token } = await admin.createRelayToken(policy);
      const explainedCall = { relayToken: id, ...explainedCallOf(call) };
      const { json: explanation } = await admin.call('POST', '/policy/explain', explainedCall);
      const response = await makeCall(call, token);

      const refusingRule = refusingRuleOf(response);
      expect(refusingRule).toBe(explanation.rule);
      expect(refusingRule === undefined).toBe(explanation.allowed);
      if (!explanation.allowed) return;

      allowedCount += 1;
      const callsPlatform = call.scope === 'threads:read' || call.scope === 'api:call';
      const isOfUser = call.scope === 'token:exchange' || (callsPlatform && call.subject !== 'account');
      // The user has connected only "platform".
      if (isOfUser && call.app !== 'platform') return;
      const isUnknownThread = call.scope === 'api:call' && call.route === 'thread';
      expect(response.status).toBe(isUnknownThread ? 404 : call.scope === 'connect_links:create' ? 201 : 200);
    }),
    { numRuns: RUNS },
  );
  expect(allowedCount).toBeGreaterThan(0);
});
