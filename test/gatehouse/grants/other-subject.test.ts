/** R101 over HTTP: a refresh response whose ID token has another subject returns no token to any caller. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { getJson } from '../../support/gatehouse.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { assertionOf, createAdministrator, exchange } from '../relay/service.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

const APP = 'elsewhere';
const TOKEN_OF_OTHER_USER = 'the-access-token-of-another-user';

let site: HostileSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startHostileSite();
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});
afterEach(() => site.provider.reset());

/** Makes the provider return the tokens of another user, with the subject of that user, for each refresh. */
const returnTokensOfOtherUser = () =>
  site.provider.setModes({
    claims: (claims) => ({ ...claims, sub: 'mallory' }),
    refreshResponse: (body) => ({
      ...body,
      scope: 'openid',
      access_token: TOKEN_OF_OTHER_USER,
      refresh_token: 'mallorys-refresh-token',
    }),
  });

test('R101 an ID token of another subject in a refresh response is refused, and the grant keeps its tokens', async () => {
  site.provider.setModes({ tokenResponse: (body) => ({ ...body, expires_in: 60 }) });
  const { agent } = await attempt(site);
  const { userId } = await sessionOf(site, agent);
  const originalGrant = await storage.readGrant(userId, APP);
  returnTokensOfOtherUser();
  advanceClock(61);

  const { status, json } = await getJson(agent, `${site.url}/threads/current`);
  expect([status, json.code]).toEqual([503, 'provider_unavailable']);

  const { accessToken, refreshToken, refresh, failure } = await storage.readGrant(userId, APP);
  expect([accessToken, refreshToken, refresh]).toEqual([
    originalGrant.accessToken,
    originalGrant.refreshToken,
    undefined,
  ]);
  expect(failure?.cause).toBe('unusable_response');
});

test('R101 an ID token of another subject is also refused in a refresh for fewer scopes: no service gets the token', async () => {
  const { agent } = await attempt(site);
  const { userId } = await sessionOf(site, agent);
  const { token } = await (await createAdministrator(site, storage)).createRelayToken({ apps: [APP] });
  const originalGrant = await storage.readGrant(userId, APP);
  const subject = {
    subject_token: await assertionOf(site, agent.cookies.header(site.url)),
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    audience: APP,
  };
  returnTokensOfOtherUser();

  const response = await exchange(site, token, { ...subject, scope: 'openid' });
  expect(response.status).toBe(503);
  expect(response.body).not.toContain(TOKEN_OF_OTHER_USER);

  const { accessToken, refreshToken, refresh, failure } = await storage.readGrant(userId, APP);
  expect([accessToken, refreshToken, refresh]).toEqual([
    originalGrant.accessToken,
    originalGrant.refreshToken,
    undefined,
  ]);
  expect(failure?.cause).toBe('unusable_response');
});
