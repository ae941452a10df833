/** The switches of the sandbox, which change tokens and keys without a request, as seen by its clients. */
import { decodeProtectedHeader } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createBinService } from '../../src/bin-lookup-service/service.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';

const CLIENT = { clientId: 'app', clientSecret: 'a-secret-of-the-test', redirectUris: ['http://127.0.0.1/callback'] };
const ACCESS = { login: 'user@example.test', clientId: CLIENT.clientId };
const SCOPES = ['openid', 'offline_access', 'platform_read_only'];

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ clients: [CLIENT], binService: createBinService() });
});
afterAll(() => sandbox.close());

async function refresh(refreshToken: string, resource?: string) {
  const response = await fetch(`${sandbox.issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${CLIENT.clientId}:${CLIENT.clientSecret}`)}` },
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      ...(resource !== undefined && { resource }),
    }),
  });
  return (await response.json()) as Record<'access_token' | 'refresh_token' | 'id_token' | 'error' | 'scope', string>;
}

const readThread = async (accessToken: string) =>
  (await fetch(`${sandbox.platformUrl}/1/threads/current`, { headers: { authorization: `Bearer ${accessToken}` } }))
    .status;

test('access is allowed, expired and revoked without a sign-in', async () => {
  const { switches } = sandbox;
  expect(switches.isAllowed(ACCESS)).toBe(false);

  const first = await refresh(await switches.allow(ACCESS, SCOPES));
  expect(switches.isAllowed(ACCESS)).toBe(true);
  expect(first.scope.split(' ')).toEqual(expect.arrayContaining(SCOPES));
  expect(await readThread(first.access_token)).toBe(200);

  switches.expireAccessTokens(ACCESS);
  expect(await readThread(first.access_token)).toBe(401);

  const second = await refresh(first.refresh_token);
  expect(await readThread(second.access_token)).toBe(200);

  switches.revoke(ACCESS);
  expect(switches.isAllowed(ACCESS)).toBe(false);
  expect(await readThread(second.access_token)).toBe(401);
  expect(await refresh(second.refresh_token)).toMatchObject({ error: 'invalid_grant' });
});

test('access that is allowed for one resource is refreshed only for that resource', async () => {
  const { switches, platformUrl } = sandbox;
  const first = await refresh(await switches.allow(ACCESS, SCOPES, platformUrl), platformUrl);
  expect(await readThread(first.access_token)).toBe(200);
  expect(await refresh(first.refresh_token, 'urn:example:reports')).toMatchObject({ error: 'invalid_target' });

  switches.revoke(ACCESS);
});

test('the next signing keys are published first, and then replace the current ones', async () => {
  const publishedKeyIds = async () => {
    const { keys } = (await (await fetch(`${sandbox.issuer}/jwks`)).json()) as { keys: { kid: string; alg: string }[] };
    return keys.map(({ kid }) => kid);
  };
  const signingKeyId = async () => {
    const tokens = await refresh(await sandbox.switches.allow(ACCESS, SCOPES));
    return String(decodeProtectedHeader(tokens.id_token).kid);
  };
  const { switches } = sandbox;
  const currentKeyIds = await publishedKeyIds();
  await switches.publishNextKeys();
  const currentAndNextKeyIds = await publishedKeyIds();
  expect(currentAndNextKeyIds.slice(0, currentKeyIds.length)).toEqual(currentKeyIds);
  expect(currentAndNextKeyIds.length).toBe(2 * currentKeyIds.length);
  expect(currentKeyIds).toContain(await signingKeyId());

  switches.signWithNextKeys();
  expect(await publishedKeyIds()).toEqual(currentAndNextKeyIds.slice(currentKeyIds.length));
  expect(await publishedKeyIds()).toContain(await signingKeyId());
});
