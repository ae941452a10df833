/** Issuer templates over HTTP: users of named tenants sign in and stay separate; other tenants are refused. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import type { Mode } from '../../support/hostile-modes.ts';
import { ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { BOOK, INK, STRANGE, templateApp, tenantIssuer, tenants } from '../connected-apps/tenants.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator, exchange } from '../relay/service.ts';
import { attempt, csrfTokenOf, type HostileSite, isSignedIn, startHostileSite } from './attempt.ts';

const ADA = { sub: 'same-in-both', name: 'Ada Quill', email: 'ada@ink.test', sid: 's1' };

let site: HostileSite;
let storage: StorageAccess;
let admin: Administrator;
beforeAll(async () => {
  site = await startHostileSite({
    apps: (provider, url) => [
      provider.app(url, templateApp(provider)),
      provider.app(url, { id: 'second', ...templateApp(provider) }),
    ],
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});
beforeEach(() => {
  site.provider.reset();
  site.provider.signInAs(ADA);
});

async function signIn(tenant: string, agent = createUserAgent()) {
  site.provider.setModes(tenants(tenant));
  const { page, signedIn } = await attempt(site, { agent, path: '/sign-in?app=elsewhere' });
  return { agent, page, signedIn };
}

/** Metadata that does not announce an `iss` in the authorization response. */
const withoutIssAnnounced: Mode['metadata'] = (metadata, scene) => ({
  ...tenants(STRANGE).metadata?.(metadata, scene),
  authorization_response_iss_parameter_supported: undefined,
});
const withoutIss: Mode['callback'] = (parameters) => parameters.delete('iss');

const userIdOf = async (agent: UserAgent) => (await sessionOf(site, agent)).userId;
const readThread = async (agent: UserAgent) => (await getJson(agent, `${site.url}/threads/current?app=elsewhere`)).json;

test('R19 the same subject in two tenants is two users, each with its own grant', async () => {
  const ink = await signIn(INK);
  const book = await signIn(BOOK);
  expect([ink.signedIn, book.signedIn]).toEqual([true, true]);

  const userOfInk = await userIdOf(ink.agent);
  const userOfBook = await userIdOf(book.agent);
  expect(userOfInk).not.toBe(userOfBook);
  expect(await userIdOf((await signIn(INK)).agent)).toBe(userOfInk);
  for (const { agent } of [ink, book])
    expect(await readThread(agent)).toMatchObject({ thread: { title: 'Harbour plan' } });
  const { json } = await admin.call('GET', `/users/${userOfBook}`);
  expect(JSON.stringify(json)).toContain(tenantIssuer(site.provider, BOOK));
});

test('refuses a tenant that is not named, and shows it to administrators', async () => {
  site.provider.setModes({ ...tenants(STRANGE), callback: withoutIss, metadata: withoutIssAnnounced });
  const { page, signedIn } = await attempt(site, { path: '/sign-in?app=second' });
  expect([signedIn, page.status]).toEqual([false, 403]);
  expect(page.body).toContain('Your account may not sign in here.');
  const { json } = await admin.call('GET', '/sign-ins');
  const [latest] = json.items as { id: string; outcome: string; cause: { code: string; field: string } }[];
  expect(latest).toMatchObject({ outcome: 'refused', cause: { code: 'other_tenant', field: 'signIn' } });
  const record = await admin.call('GET', `/sign-ins/${latest?.id}`);
  expect(JSON.stringify(record.json)).toContain(`tenant ${STRANGE}`);
});

test('R101 refuses a refresh response with the same subject of another tenant', async () => {
  const { agent } = await signIn(INK);
  const userId = await userIdOf(agent);
  await storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1 }), 'elsewhere');
  const grantBefore = await storage.readGrant(userId, 'elsewhere');
  site.provider.setModes(tenants(BOOK));
  expect((await getJson(agent, `${site.url}/threads/current?app=elsewhere`)).json.code).toBe('provider_unavailable');
  const { accessToken, failure } = await storage.readGrant(userId, 'elsewhere');
  expect([accessToken, failure?.cause]).toEqual([grantBefore.accessToken, 'unusable_response']);
});

test('the same subject of another tenant is another account, and does not inherit the refresh token', async () => {
  const { agent } = await signIn(INK);
  const userId = await userIdOf(agent);
  const connect = async (tenant: string, tokens = (body: Record<string, unknown>) => body) => {
    site.provider.setModes({ ...tenants(tenant), tokenResponse: tokens });
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
    await agent.request(`${site.url}/connections/second`, { method: 'POST', body });
    return storage.readGrant(userId, 'second');
  };
  const first = await connect(INK);
  const withoutRefreshToken = ({ refresh_token: _, ...body }: Record<string, unknown>) => body;
  expect((await connect(INK, withoutRefreshToken)).refreshToken).toBe(first.refreshToken);
  expect((await connect(BOOK, withoutRefreshToken)).refreshToken).toBeUndefined();
  expect(new URLSearchParams(site.provider.hitsOf('revocation')[0]?.body).get('token')).toBe(first.refreshToken);
});

test('R58 a logout token ends no session with the same subject and sid of another tenant', async () => {
  const ink = await signIn(INK);
  const book = await signIn(BOOK);
  advanceClock(1);
  /** Sends a logout token with the `tid` of one tenant, and the `iss` of the same or another tenant. */
  const sendLogoutToken = async (tenant: string, tenantOfIss = tenant) => {
    const iss = tenantIssuer(site.provider, tenantOfIss);
    const logoutToken = await site.provider.logoutToken({
      claims: { iss, tid: tenant, iat: Math.floor(Date.now() / 1000) },
    });
    const body = new URLSearchParams({ logout_token: logoutToken }).toString();
    const path = '/oauth/backchannel-logout/elsewhere';
    const headers = { ...FORM_BODY, ...ACCEPT_JSON };
    const { status } = await sendRequest(site.url + path, { method: 'POST', headers, body });
    return status;
  };
  expect([await sendLogoutToken(STRANGE), await sendLogoutToken(BOOK, INK)]).toEqual([400, 400]);
  expect([await isSignedIn(site, ink.agent), await isSignedIn(site, book.agent)]).toEqual([true, true]);
  expect(await sendLogoutToken(BOOK)).toBe(200);
  expect([await isSignedIn(site, ink.agent), await isSignedIn(site, book.agent)]).toEqual([true, false]);
});

test('R99 an ID token authenticates the user of its tenant', async () => {
  // A sign-in in the second in which the provider ended the user's sessions would be refused.
  advanceClock(2);
  const idTokens: string[] = [];
  const { agent } = await signIn(INK);
  site.provider.setModes({
    ...tenants(BOOK),
    onIssued: (value) => {
      const isJwt = value.split('.').length === 3;
      if (isJwt) idTokens.push(value);
    },
  });
  const book = await attempt(site, { path: '/sign-in?app=elsewhere' });
  const { token } = await admin.createRelayToken({ apps: ['elsewhere'], acceptIdTokens: true });
  const form = { subject_token_type: 'urn:ietf:params:oauth:token-type:id_token', audience: 'elsewhere' };
  const { status, body } = await exchange(site, token, { ...form, subject_token: idTokens.at(-1) ?? '' });

  const grantOfInk = await storage.readGrant(await userIdOf(agent), 'elsewhere');
  const grantOfBook = await storage.readGrant(await userIdOf(book.agent), 'elsewhere');
  expect([status, JSON.parse(body).access_token]).toEqual([200, grantOfBook.accessToken]);
  expect(grantOfInk.accessToken).not.toBe(grantOfBook.accessToken);
});
