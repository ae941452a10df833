/** Whatever the policy: what the function allows is allowed over HTTP, what it refuses is refused there by the same rule. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RELAY_SCOPES, type RelayScope } from '../../../src/gatehouse/relay/policy.ts';
import { type Asked, ask, JSON_BODY } from '../../support/ask.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { openVaultDesk, sessionOf, type VaultDesk } from '../grants/vault-desk.ts';
import { type Administrator, administratorOf, assertionOf, bearer, exchange, relayThread } from './service.ts';

const RUNS = 150;

let site: TestSite;
let desk: VaultDesk;
let admin: Administrator;
let cookie: string;
let userId: string;
let disabledId: string;
let apiToken: string;
/** By app. */
const accounts: Record<string, string> = {};
beforeAll(async () => {
  site = await startSite({
    sandbox: { accessTokenSeconds: 3_600 },
    apps: (at) => [sandboxApp(at, 'platform'), sandboxApp(at, 'second', { signIn: undefined })],
    env: { TRUSTED_PROXIES: '127.0.0.1' },
  });
  desk = await openVaultDesk(site);
  admin = await administratorOf(site, desk);
  const { agent } = await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
  cookie = agent.cookies.header(site.url);
  ({ userId } = await sessionOf(site, agent));
  const { agent: second } = await signIn(site, 'second@example.test', { path: '/sign-in?app=platform' });
  ({ userId: disabledId } = await sessionOf(site, second));
  // The sandbox's platform takes any access token as an API token.
  apiToken = (await desk.read(userId)).accessToken;
  for (const app of ['platform', 'second']) {
    const made = await admin.call('POST', '/service-accounts', { name: app, app, apiToken });
    accounts[app] = String(made.json.id);
  }
  expect((await admin.call('POST', `/users/${disabledId}/disable`)).status).toBeLessThan(300);
});
afterAll(async () => {
  await desk.close();
  await site.close();
});

interface Wanted {
  route: RelayScope;
  app: string;
  /** Proven, named, somebody who is disabled named, or no user: for connections, all of them. */
  whom: 'proven' | 'named' | 'disabled' | 'account';
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
const calls = fc.record<Wanted>({
  route: fc.constantFrom(...RELAY_SCOPES),
  app: fc.constantFrom('platform', 'second'),
  whom: fc.constantFrom('proven', 'proven', 'named', 'disabled', 'account'),
  address: fc.constantFrom('10.1.1.1', '192.0.2.9', '198.51.100.1'),
});

/** The call as a service behind our proxy makes it. Nothing can be exchanged for a service account. */
async function make({ route, app, whom, address }: Wanted, token: string): Promise<Asked> {
  const from = { 'x-forwarded-for': address };
  if (route === 'bin:read') return ask(`${site.url}/relay/bin/45717360`, { headers: { ...bearer(token), ...from } });
  const id = whom === 'disabled' ? disabledId : userId;
  const assertion = whom === 'proven' ? await assertionOf(site, cookie) : '';
  if (route === 'threads:read') {
    const named = whom === 'account' ? { 'gatehouse-service-account': accounts[app] ?? '' } : { 'gatehouse-user': id };
    const subject = whom === 'proven' ? { 'gatehouse-user-assertion': assertion } : named;
    return relayThread(site, token, { ...subject, ...from }, `?app=${app}`);
  }
  if (route === 'connections:read') {
    const proof = whom === 'proven' ? { 'gatehouse-user-assertion': assertion } : {};
    const user = whom === 'named' || whom === 'disabled' ? `&user=${id}` : '';
    return ask(`${site.url}/relay/connections?app=${app}${user}`, { headers: { ...bearer(token), ...proof, ...from } });
  }
  if (route === 'connect_links:create') {
    const proof = whom === 'proven' ? { 'gatehouse-user-assertion': assertion } : {};
    const body = JSON.stringify({ app, ...(whom === 'proven' ? {} : { user: id }) });
    const headers = { ...bearer(token), ...JSON_BODY, ...proof, ...from };
    return ask(`${site.url}/relay/connect-links`, { method: 'POST', headers, body });
  }
  const type = whom === 'proven' ? 'urn:ietf:params:oauth:token-type:jwt' : 'urn:gatehouse:token-type:user';
  const subject = { subject_token: whom === 'proven' ? assertion : id, subject_token_type: type };
  return exchange(site, token, { ...subject, audience: app }, from);
}

function questionOf({ route, app, whom, address }: Wanted) {
  if (whom === 'account' && route === 'connections:read') return { route, app, address };
  if (whom === 'account' && (route === 'threads:read' || route === 'bin:read'))
    return { route, app, address, serviceAccount: accounts[app] };
  const user = whom === 'disabled' ? disabledId : userId;
  return { route, app, address, user, proof: whom === 'proven' ? 'assertion' : 'none' };
}

/** The rule that refused, or undefined where policy let it pass: the user has not connected the second app. */
function refusedBy(answer: Asked): string | undefined {
  const body = JSON.parse(answer.body);
  return /^Rule (\w+):/.exec(body.detail ?? body.error_description ?? '')?.[1];
}

test('R81 the function and the routes agree on every policy and every call', async () => {
  let allowed = 0;
  await fc.assert(
    fc.asyncProperty(policies(), calls, async (policy, call) => {
      const { id, token } = await admin.makeToken(policy);
      const { json: said } = await admin.call('POST', '/policy/explain', { relayToken: id, ...questionOf(call) });
      const answer = await make(call, token);
      expect([refusedBy(answer), refusedBy(answer) === undefined]).toEqual([said.rule, said.allowed]);
      // What policy lets pass is answered, but for the app that the user has not connected.
      const asAccount = call.whom === 'account' && call.route === 'threads:read';
      const creates = call.route === 'connect_links:create';
      const hasGrant =
        call.app === 'platform' || asAccount || creates || ['bin:read', 'connections:read'].includes(call.route);
      if (said.allowed && hasGrant) expect(answer.status).toBe(creates ? 201 : 200);
      if (said.allowed) allowed += 1;
    }),
    { numRuns: RUNS },
  );
  expect(allowed).toBeGreaterThan(0);
});
