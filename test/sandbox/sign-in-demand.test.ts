/** The platform demands a stronger or newer sign-in (RFC 9470), as each app is set. */

import * as oidc from 'openid-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { advanceClock } from '../support/test-clock.ts';
import { CLIENT, createBrowser, type ForeignClient, PASSWORD, startForeignClient } from './foreign-client.ts';

const ADMIN = 'admin@example.test';

let client: ForeignClient;
beforeAll(async () => {
  const demanding = { demandSecondFactor: true, demandMaxAgeSeconds: 100 };
  client = await startForeignClient({ clients: [{ ...CLIENT, settings: demanding }], accessTokenSeconds: 3_600 });
});
afterAll(() => client.sandbox.close());

const callWith = async (token: string) => {
  const response = await fetch(`${client.sandbox.platformUrl}/1/threads/current`, {
    headers: { authorization: `Bearer ${token}` },
  });
  return { status: response.status, challenge: response.headers.get('www-authenticate'), body: await response.json() };
};

it('names the second factor and the age that are missing, also after a refresh, and accepts a sign-in with both', async () => {
  const browser = createBrowser();
  const weak = await client.signIn({ browser, login: ADMIN, scope: 'openid offline_access platform_read_only' });
  expect(await callWith(weak.access_token)).toEqual({
    status: 401,
    challenge: 'Bearer error="insufficient_user_authentication", acr_values="mfa"',
    body: expect.objectContaining({ error: 'insufficient_user_authentication' }),
  });
  advanceClock(101);
  const renewed = await oidc.refreshTokenGrant(client.config, weak.refresh_token ?? '');
  const both = 'Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="100"';
  expect(await callWith(renewed.access_token)).toMatchObject({ status: 401, challenge: both });

  const { url, finish } = await client.begin('openid platform_read_only', { acr_values: 'mfa', max_age: '100' });
  const codePage = await browser.submit(await browser.get(url), { login: ADMIN, password: PASSWORD });
  const code = client.sandbox.secondFactorCode(ADMIN) ?? '';
  const consent = await browser.submit(codePage, { code });
  const strong = await finish(await browser.submit(consent, {}, { button: 'Allow' }));
  expect(strong.claims()).toMatchObject({ acr: 'mfa' });
  expect((await callWith(strong.access_token)).status).toBe(200);

  advanceClock(101);
  const old = 'Bearer error="insufficient_user_authentication", max_age="100"';
  expect(await callWith(strong.access_token)).toMatchObject({ status: 401, challenge: old });
});
