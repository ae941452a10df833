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
const nowInSeconds = () => Math.floor(Date.now() / 1000);

describe('R99 an ID token as proof', () => {
  let testStorage: TestStorage;
  let provider: HostileProvider;
  let site: HostileSite;
  let admin: Administrator;
  let token: string;
  const idTokens: string[] = [];
  /** Of the issued tokens, only ID tokens have three parts. */
  const recordIdToken: Mode['onIssued'] = (issuedToken) => {
    if (issuedToken.split('.').length === 3) idTokens.push(issuedToken);
  };
  beforeAll(async () => {
    testStorage = await createTestStorage('SQLite');
    provider = await startHostileProvider();
    provider.setModes({ onIssued: recordIdToken });
    site = await startHostileSite({ provider, env: testStorage.env });
    admin = await testStorage.withStore((store) => createAdministrator(site, { store, sealer: sealerOf(site.env) }));
    ({ token } = await admin.createRelayToken({ apps: ['elsewhere'], acceptIdTokens: true }));
  });
  afterAll(async () => {
    await site?.close();
    await provider?.close();
    await testStorage?.dispose();
  });

  async function signIn(): Promise<{ agent: UserAgent; idToken: string }> {
    const { agent, signedIn } = await attempt(site);
    expect(signedIn).toBe(true);
    return { agent, idToken: idTokens.at(-1) ?? '' };
  }

  const exchangeIdToken = async (idToken: string, relayToken = token) => {
    const form = { subject_token: idToken, subject_token_type: ID_TOKEN, audience: 'elsewhere' };
    const { status, body } = await exchange(site, relayToken, form);
    return { status, ...(JSON.parse(body) as Record<string, string>) };
  };
  const signOut = async (agent: UserAgent, path = '/sign-out') => {
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
    await agent.request(site.url + path, { method: 'POST', body, follow: false });
  };
  const NOT_VALID = { status: 400, error: 'invalid_request', error_description: expect.stringContaining('not valid') };

  test('a relay token accepts no ID tokens by default', async () => {
    const { idToken } = await signIn();
    const { token: tokenByDefault } = await admin.createRelayToken({ apps: ['elsewhere'] });
    expect(await exchangeIdToken(idToken, tokenByDefault)).toMatchObject({
      status: 400,
      error: 'invalid_request',
      error_description: expect.stringContaining('acceptIdTokens'),
    });
    expect(await exchangeIdToken(idToken)).toMatchObject({ status: 200, access_token: expect.any(String) });
  });

  test('refuses an ID token whose session has ended, even if the user has another session', async () => {
    const laptop = await signIn();
    const phone = await signIn();

    await signOut(laptop.agent);
    expect(await exchangeIdToken(laptop.idToken)).toMatchObject(NOT_VALID);
    expect(await exchangeIdToken(phone.idToken)).toMatchObject({ status: 200 });

    await signOut(phone.agent, '/sign-out/everywhere');
    expect(await exchangeIdToken(phone.idToken)).toMatchObject(NOT_VALID);
  });

  test('refuses an ID token immediately after a back-channel logout', async () => {
    provider.signInAs({ sub: 'user-2', sid: 'session-2' });
    const { idToken } = await signIn();
    expect(await exchangeIdToken(idToken)).toMatchObject({ status: 200 });
    await fetch(`${site.url}/oauth/backchannel-logout/elsewhere`, {
      method: 'POST',
      body: new URLSearchParams({ logout_token: await provider.logoutToken() }),
    });
    expect(await exchangeIdToken(idToken)).toMatchObject(NOT_VALID);
    provider.signInAs({ sub: 'user-1' });
  });

  test('refuses an ID token that is more than 10 minutes old', async () => {
    provider.setModes({ onIssued: recordIdToken, claims: (claims) => ({ ...claims, iat: nowInSeconds() - 540 }) });
    expect(await exchangeIdToken((await signIn()).idToken)).toMatchObject({ status: 200 });
    provider.setModes({ onIssued: recordIdToken, claims: (claims) => ({ ...claims, iat: nowInSeconds() - 601 }) });
    expect(await exchangeIdToken((await signIn()).idToken)).toMatchObject(NOT_VALID);
    provider.setModes({ onIssued: recordIdToken });
  });

  test('refuses an ID token that began no session, such as one of a reconnection, and a changed one', async () => {
    const { agent, idToken } = await signIn();
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
    await agent.request(`${site.url}/connections/elsewhere`, { method: 'POST', body });
    const idTokenOfReconnection = idTokens.at(-1) ?? '';
    expect(idTokenOfReconnection).not.toBe(idToken);
    expect(await exchangeIdToken(idTokenOfReconnection)).toMatchObject(NOT_VALID);

    const [header = '', claims = '', signature = ''] = idToken.split('.');
    const headerWithoutAlgorithm = Buffer.from('{"alg":"none"}').toString('base64url');
    const unsigned = `${headerWithoutAlgorithm}.${claims}.`;
    const changedSignature = `${header}.${claims}.${signature}A`;
    for (const changedIdToken of [unsigned, changedSignature, `${idToken} `, 'a.b.c']) {
      expect(await exchangeIdToken(changedIdToken)).toMatchObject(NOT_VALID);
    }
    expect(await exchangeIdToken(idToken)).toMatchObject({ status: 200 });
  });
});

describe('R99 the times of an ID token', () => {
  const clock = () => 1_800_000_000_000;
  const idTokens = createIdTokens({ userSessions: { hasBegunWith: async () => true }, clock });
  const now = clock() / 1000;
  const VALID_CLAIMS = { iss: 'https://provider.test', sub: 's1', iat: now, exp: now + 300 };
  const userOf = (changes: object) => idTokens.userOf(new UnsecuredJWT({ ...VALID_CLAIMS, ...changes }).encode());

  test.each([
    ['that was just issued', {}],
    ['that is 10 minutes old', { iat: now - 600 }],
    ['from a clock that is 60 s ahead', { iat: now + 60 }],
    ['that expired 30 s ago', { exp: now - 30 }],
  ])('accepts an ID token %s', async (_description, changes) => {
    expect(await userOf(changes)).toBe(userIdOf('https://provider.test', 's1'));
  });

  test.each([
    ['that is older than 10 minutes', { iat: now - 601 }],
    ['from a clock that is 61 s ahead', { iat: now + 61 }],
    ['that expired 31 s ago', { exp: now - 31 }],
    ['without `iat`', { iat: undefined }],
    ['without `exp`', { exp: undefined }],
    ['without an issuer', { iss: undefined }],
    ['without a subject', { sub: undefined }],
    ['that is too long', { filler: 'x'.repeat(16_384) }],
  ])('refuses an ID token %s', async (_description, changes) => {
    expect(await userOf(changes)).toBeUndefined();
  });
});
