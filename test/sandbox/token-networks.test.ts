/** A user's networks restrict access, refresh and API tokens, if the user or the app is set to restrict tokens. */
import * as oidc from 'openid-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readSeed } from '../../src/sandbox/seed.ts';
import { type ForeignClient, openConsole, startForeignClient } from './foreign-client.ts';

const API_TOKEN = 'sbxt_a-token-of-the-second-user-0123456789';
const LOGIN = 'second@example.test';
const ELSEWHERE = '192.0.2.0/24';

let client: ForeignClient;
let admin: Awaited<ReturnType<typeof openConsole>>;

beforeAll(async () => {
  const tokens = [{ name: 'Nightly', user: LOGIN, scopes: ['platform_read_only'], token: API_TOKEN }];
  const { seed } = readSeed(JSON.stringify({ tokens }));
  if (seed === undefined) throw new Error('the seed of this test is wrong');
  client = await startForeignClient({ seed });
  admin = await openConsole(client);
});
afterAll(() => client.sandbox.close());

const saveUser = async (fields: Record<string, string>) =>
  admin.browser.submit(await admin.open('/users/sbx-00u2'), fields, { button: 'Save' });
const saveApp = async (restrictTokens: string) =>
  admin.browser.submit(await admin.open('/apps/foreign-client'), { restrictTokens }, { button: 'Save' });

async function resultsFor({ access_token, refresh_token = '' }: oidc.TokenEndpointResponse) {
  const refreshed = await oidc.refreshTokenGrant(client.config, refresh_token).catch((error: unknown) => error);
  const userinfo = await fetch(`${client.sandbox.issuer}/userinfo`, {
    headers: { authorization: `Bearer ${access_token}` },
  });
  return {
    access: (await client.thread(access_token)).status,
    userinfo: userinfo.status,
    api: (await client.thread(API_TOKEN)).status,
    refreshed: refreshed as oidc.TokenEndpointResponse & oidc.ResponseBodyError,
  };
}

it('a token works from anywhere unless its app or its user is restricted', async () => {
  let tokens: oidc.TokenEndpointResponse = await client.signIn({ login: LOGIN });
  await saveUser({ networks: ELSEWHERE });
  const unrestricted = await resultsFor(tokens);
  expect(unrestricted).toMatchObject({ access: 200, userinfo: 200, api: 200, refreshed: { token_type: 'bearer' } });

  tokens = unrestricted.refreshed;

  await saveApp('yes');
  const restrictedByApp = await resultsFor(tokens);
  expect(restrictedByApp).toMatchObject({
    access: 403,
    userinfo: 401,
    api: 200,
    refreshed: { error: 'invalid_grant' },
  });
  expect(restrictedByApp.refreshed.error_description).toContain('not in the networks of the user');

  const refusal = (await (await client.thread(tokens.access_token)).json()) as object;
  expect(refusal).toMatchObject({ error: 'ip_restricted', error_code: 403 });

  await saveApp('');
  await saveUser({ restrictTokens: 'yes' });
  expect(await resultsFor(tokens)).toMatchObject({ access: 403, api: 403, refreshed: { error: 'invalid_grant' } });

  await saveUser({ networks: '127.0.0.0/8' });
  const inside = await resultsFor(tokens);
  expect(inside).toMatchObject({ access: 200, userinfo: 200, api: 200, refreshed: { token_type: 'bearer' } });
});
