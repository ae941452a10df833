/** Connected apps and admin tokens on shared storage: every process has a change within a second. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { APP_DEFAULTS, startWithoutSandbox, type TestGatehouse } from '../../../support/gatehouse.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { missingRedis, type RedisServer, startRedis } from '../../../support/redis-server.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../../../support/send-request.ts';
import { createAdminToken } from '../../../support/terminal.ts';
import { until } from '../../../support/until.ts';

let redis: RedisServer;
let firstSite: TestGatehouse;
let secondSite: TestGatehouse;
beforeAll(async () => {
  if (missingRedis) return;
  redis = await startRedis();
  firstSite = await startWithoutSandbox({ apps: [], env: { REDIS_URL: redis.url } });
  const { ENCRYPTION_KEYS = '', SESSION_SECRETS = '' } = firstSite.env;
  secondSite = await startWithoutSandbox({ apps: [], env: { REDIS_URL: redis.url, ENCRYPTION_KEYS, SESSION_SECRETS } });
});
afterAll(async () => {
  await firstSite?.close();
  await secondSite?.close();
  await redis?.dispose();
});

test('R81 an app and a token are created and deleted in both processes', async (context) => {
  skipIfMissing(context, missingRedis);
  const token = await createAdminToken(firstSite);
  const headers = { ...ACCEPT_JSON, ...JSON_BODY, authorization: `Bearer ${token}` };
  const callApps = (site: TestGatehouse, path = '', options: { method?: string; body?: string } = {}) =>
    sendRequest(`${site.url}/admin/api/connected-apps${path}`, { headers, ...options });
  const body = JSON.stringify({
    id: 'everywhere',
    name: 'Everywhere',
    issuer: 'https://idp.example.com',
    clientId: 'c',
    tokenEndpointAuthMethod: 'none',
    scopes: ['openid'],
    callbackUrls: [`${secondSite.url}/oauth/callback/everywhere`],
    signIn: { allow: 'everyone' },
    disabled: true,
  });
  expect((await callApps(firstSite, '', { method: 'POST', body })).status).toBe(201);
  expect(await until(async () => (await callApps(secondSite, '/everywhere')).status === 200)).toBeLessThan(1_000);
  const disabled = JSON.parse((await callApps(secondSite, '/everywhere')).body);
  expect(disabled).toMatchObject({ disabled: true, unusable: expect.any(String) });
  const signInStatus = async () =>
    (await sendRequest(`${secondSite.url}/sign-in?app=everywhere`, { headers: ACCEPT_JSON })).status;
  expect(await signInStatus()).toBe(404);
  const enabled = JSON.stringify({ ...APP_DEFAULTS, ...JSON.parse(body), disabled: false, version: disabled.version });
  expect((await callApps(firstSite, '/everywhere', { method: 'PUT', body: enabled })).status).toBe(200);
  expect(await until(async () => (await signInStatus()) !== 404)).toBeLessThan(1_000);

  expect((await callApps(secondSite, '/everywhere', { method: 'DELETE' })).status).toBe(204);
  const [{ id }] = JSON.parse((await sendRequest(`${firstSite.url}/admin/api/admin-tokens`, { headers })).body).items;
  expect(
    (await sendRequest(`${firstSite.url}/admin/api/admin-tokens/${id}`, { method: 'DELETE', headers })).status,
  ).toBe(204);
  expect((await callApps(secondSite)).status).toBe(401);
});
