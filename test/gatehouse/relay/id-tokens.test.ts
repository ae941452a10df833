/** ID tokens as proof of a user at token exchange: only if the policy allows it, for ten minutes and during their session. */

import { UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createIdTokens } from '../../../src/gatehouse/relay/id-token.ts';
import { userIdOf } from '../../../src/gatehouse/users/user-id.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { sealerOf } from '../../support/encryption-keys.ts';
import type { Mode } from '../../support/hostile-modes.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { createTestStorage, type TestStorage } from '../../support/test-storage.ts';
import { attempt, csrfTokenOf, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { type Administrator, createAdministrator, exchange } from './service.ts';

const ID_TOKEN = 'urn:ietf:params:oauth:token-type:id_token';
const now = () => Math.floor(Date.now() / 1000);

describe('R99', () => {
  let place: TestStorage;
  let provider: HostileProvider;
  let site: HostileSite;
  let admin: Administrator;
  let token: string;
  const idTokens: string[] = [];
  const issued: Mode['onIssued'] = (value) => void (value.split('.').length === 3 && idTokens.push(value));
  beforeAll(async () => {
    place = await createTestStorage('SQLite');
    provider = await startHostileProvider();
    provider.setModes({ onIssued: issued });
    site = await startHostileSite({ provider, env: place.env });
    admin = await place.withStore((store) => createAdministrator(site, { store, sealer: sealerOf(site.env) }));
    ({ token } = await admin.createRelayToken({ apps: ['elsewhere'], acceptIdTokens: true }));
  });
  afterAll(async () => {
    await site?.close();
    await provider?.close();
    await place?.dispose();
  });

  async function signIn(): Promise<{ agent: UserAgent; idToken: string }> {
    const { agent, signedIn } = await attempt(site);
    expect(signedIn).toBe(true);
    return { agent, idToken: idTokens.at(-1) ?? '' };
  }

  const present = async (idToken: string, relayToken = token) => {
    const form = { subject_token: idToken, subject_token_type: ID_TOKEN, audience: 'elsewhere' };
    const { status, body } = await exchange(site, relayToken, form);
    return { status, ...(JSON.parse(body) as Record<string, string>) };
  };
  const signOut = async (agent: UserAgent, path = '/sign-out') => {
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
    await agent.request(site.url + path, { method: 'POST', body, follow: false });
  };
  const NO_PROOF = { status: 400, error: 'invalid_request', error_description: expect.stringContaining('not valid') };

  test('a relay token accepts no ID tokens by default', async () => {
    const { idToken } = await signIn();
    const { token: plain } = await admin.createRelayToken({ apps: ['elsewhere'] });
    expect(await present(idToken, plain)).toMatchObject({
      ...{ status: 400, error: 'invalid_request' },
      error_description: expect.stringContaining('acceptIdTokens'),
    });
    expect(await present(idToken)).toMatchObject({ status: 200, access_token: expect.any(String) });
  });

  test('refuses an ID token whose session has ended, even if the user has another session', async () => {
    const [laptop, phone] = [await signIn(), await signIn()];
    await signOut(laptop.agent);
    expect(await present(laptop.idToken)).toMatchObject(NO_PROOF);
    expect(await present(phone.idToken)).toMatchObject({ status: 200 });
    await signOut(phone.agent, '/sign-out/everywhere');
    expect(await present(phone.idToken)).toMatchObject(NO_PROOF);
  });

  test('refuses an ID token immediately after a back-channel logout', async () => {
    provider.signInAs({ sub: 'user-2', sid: 'session-2' });
    const { idToken } = await signIn();
    expect(await present(idToken)).toMatchObject({ status: 200 });
    await fetch(`${site.url}/oauth/backchannel-logout/elsewhere`, {
      method: 'POST',
      body: new URLSearchParams({ logout_token: await provider.logoutToken() }),
    });
    expect(await present(idToken)).toMatchObject(NO_PROOF);
    provider.signInAs({ sub: 'user-1' });
  });

  test('refuses an ID token that is more than 10 minutes old', async () => {
    provider.setModes({ onIssued: issued, claims: (claims) => ({ ...claims, iat: now() - 540 }) });
    expect(await present((await signIn()).idToken)).toMatchObject({ status: 200 });
    provider.setModes({ onIssued: issued, claims: (claims) => ({ ...claims, iat: now() - 601 }) });
    expect(await present((await signIn()).idToken)).toMatchObject(NO_PROOF);
    provider.setModes({ onIssued: issued });
  });

  test('refuses an ID token that began no session, and one that was changed', async () => {
    const { agent, idToken } = await signIn();
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
    await agent.request(`${site.url}/connections/elsewhere`, { method: 'POST', body });
    const ofConsent = idTokens.at(-1) ?? '';
    expect(ofConsent).not.toBe(idToken);
    const [head = '', claims = '', signature = ''] = idToken.split('.');
    const none = Buffer.from('{"alg":"none"}').toString('base64url');
    for (const text of [ofConsent, `${none}.${claims}.`, `${head}.${claims}.${signature}A`, `${idToken} `, 'a.b.c']) {
      expect(await present(text)).toMatchObject(NO_PROOF);
    }
    expect(await present(idToken)).toMatchObject({ status: 200 });
  });
});

describe('R99 the times of an ID token', () => {
  const clock = () => 1_800_000_000_000;
  const idTokens = createIdTokens({ userSessions: { hasBegunWith: async () => true }, clock });
  const at = clock() / 1000;
  const good = { iss: 'https://provider.test', sub: 's1', iat: at, exp: at + 300 };
  const userOf = (claims: object) => idTokens.userOf(new UnsecuredJWT({ ...good, ...claims }).encode());

  test.each([
    ['that was just issued', {}],
    ['that is 10 minutes old', { iat: at - 600 }],
    ['from a clock that is ahead', { iat: at + 60 }],
    ['that expired within the tolerance', { exp: at - 30 }],
  ])('accepts an ID token %s', async (_words, claims) => {
    expect(await userOf(claims)).toBe(userIdOf('https://provider.test', 's1'));
  });

  test.each([
    ['that is older than 10 minutes', { iat: at - 601 }],
    ['from the future', { iat: at + 61 }],
    ['that has expired', { exp: at - 31 }],
    ['without `iat`', { iat: undefined }],
    ['without `exp`', { exp: undefined }],
    ['without an issuer', { iss: undefined }],
    ['without a subject', { sub: undefined }],
    ['that is too long', { filler: 'x'.repeat(16_384) }],
  ])('refuses an ID token %s', async (_words, claims) => {
    expect(await userOf(claims)).toBeUndefined();
  });
});
