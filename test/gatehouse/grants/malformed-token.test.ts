/** F28 and R107: an access token that no header can carry is refused when it is received, and affects only its user. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { SIGN_IN_FAILURES } from '../../../src/gatehouse/sign-in-record/failures.ts';
import { getJson } from '../../support/gatehouse.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { advanceClock, resetClock } from '../../support/test-clock.ts';
import { assertionOf, createAdministrator, exchange } from '../relay/service.ts';
import { attempt, expectNamedCause, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

const APP = 'elsewhere';
const MALFORMED_TOKENS = ['a€b', 'a\nb', 'a\u007fb', 'aéb'];
const NEW_REFRESH_TOKEN = 'the-refresh-token-that-came-along';

let provider: HostileProvider;
let site: HostileSite;
let storage: StorageAccess;
beforeAll(async () => {
  provider = await startHostileProvider();
  // Without userinfo, so that nothing uses the token of a sign-in at once.
  const { userinfo: _, ...endpoints } = provider.endpointSettings();
  site = await startHostileSite({ provider, app: { endpoints } });
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage.close();
  await site.close();
  await provider.close();
});
afterEach(() => {
  provider.reset();
  resetClock();
});

/** Makes the provider put this access token into each token response. */
const setAccessToken = (accessToken: string) =>
  provider.setModes({
    tokenResponse: (body) => ({
      ...body,
      access_token: accessToken,
      refresh_token: NEW_REFRESH_TOKEN,
      scope: 'openid',
    }),
  });
const signInUser = async (subject: string) => {
  provider.signInAs({ sub: subject, name: subject });
  provider.setModes({ tokenResponse: (body) => ({ ...body, expires_in: 60 }) });
  const { agent } = await attempt(site);
  return { agent, ...(await sessionOf(site, agent)) };
};
type SignedInUser = Awaited<ReturnType<typeof signInUser>>;
const getThread = ({ agent }: SignedInUser) => getJson(agent, `${site.url}/threads/current`);

test.each(MALFORMED_TOKENS)(
  'R107 a refresh that returns %j is refused, and the new refresh token is stored (R32)',
  async (token) => {
    const user = await signInUser('user-of-a-malformed-token');
    const originalGrant = await storage.readGrant(user.userId, APP);
    setAccessToken(token);
    advanceClock(61);

    const { status, json } = await getThread(user);
    expect([status, json.code]).toEqual([503, 'provider_unavailable']);

    const { accessToken, refreshToken, failure } = await storage.readGrant(user.userId, APP);
    expect([accessToken, refreshToken]).toEqual([originalGrant.accessToken, NEW_REFRESH_TOKEN]);
    expect(failure).toMatchObject({ kind: 'passing', cause: 'unusable_response' });
  },
);

test('R107 a malformed token of a refresh for fewer scopes is returned to no service', async () => {
  const user = await signInUser('user-of-a-service');
  const { token } = await (await createAdministrator(site, storage)).createRelayToken({ apps: [APP] });
  const subject = {
    subject_token: await assertionOf(site, user.agent.cookies.header(site.url)),
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    audience: APP,
  };
  setAccessToken('a€b');

  const response = await exchange(site, token, { ...subject, scope: 'openid' });
  expect(response.status).toBe(503);
  expect((await storage.readGrant(user.userId, APP)).refreshToken).toBe(NEW_REFRESH_TOKEN);
});

test.each(MALFORMED_TOKENS)('R107 a sign-in whose access token is %j is refused', async (token) => {
  setAccessToken(token);
  const { page, signedIn } = await attempt(site);
  expect(signedIn).toBe(false);

  expectNamedCause(page, SIGN_IN_FAILURES.token_response_refused.detail);
});

test('F28 200 calls of a user with a malformed token do not affect other users', async () => {
  const [malformed, other] = [await signInUser('malformed'), await signInUser('other')];
  setAccessToken('a€b');
  advanceClock(61);

  for (let calls = 0; calls < 200; calls += 1) expect((await getThread(malformed)).status).toBe(503);

  provider.setModes();
  expect((await getThread(other)).status).toBe(200);
});
