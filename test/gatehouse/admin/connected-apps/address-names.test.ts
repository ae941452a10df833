/**
 * R79 by the admin API: names of private addresses, redirects to them, and names that change; and the way in when
 * nobody can sign in.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../../src/shared/outbound/address-policy.ts';
import { createOutbound } from '../../../../src/shared/outbound/outbound.ts';
import { startWithoutSandbox, type TestGatehouse } from '../../../support/gatehouse.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../../../support/send-request.ts';
import { createAdminToken } from '../../../support/terminal.ts';

let site: TestGatehouse;
let token: string;
let server: Server;
let requestCount = 0;
beforeAll(async () => {
  site = await startWithoutSandbox({ apps: [], env: { INTERNAL_HOSTS: '127.0.0.2' } });
  token = await createAdminToken(site);
  server = createServer((_req, res) => {
    requestCount += 1;
    res.writeHead(302, { location: `http://127.0.0.1:${(server.address() as AddressInfo).port}/private` }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
});
afterAll(async () => {
  server.close();
  await site.close();
});

async function register(changes: Record<string, unknown>) {
  const { status, body } = await sendRequest(`${site.url}/admin/api/connected-apps`, {
    method: 'POST',
    headers: { ...ACCEPT_JSON, ...JSON_BODY, authorization: `Bearer ${token}` },
    body: JSON.stringify({
      id: 'named',
      name: 'Named',
      clientId: 'c',
      tokenEndpointAuthMethod: 'none',
      scopes: ['openid'],
      callbackUrls: [`${site.url}/oauth/callback/named`],
      ...changes,
    }),
  });
  return { status, errors: JSON.parse(body).errors };
}

test('R79 a token from the command works in the API, which refuses a name of a private address', async () => {
  const { status, errors } = await register({ issuer: 'https://localhost' });
  expect([status, errors]).toMatchObject([400, [{ pointer: '#/issuer', rule: 'private_address' }]]);
});

test('R79 a redirect to a private address is not followed', async () => {
  const { port } = server.address() as AddressInfo;
  expect((await register({ issuer: `http://127.0.0.2:${port}`, signIn: { allow: 'everyone' } })).status).toBe(201);
  const started = await sendRequest(`${site.url}/sign-in?app=named`, { headers: ACCEPT_JSON });
  expect(started.status).toBeGreaterThanOrEqual(500);
  expect(requestCount).toBe(1);
});

test('R79 a stored name that later resolves to a private address is refused by the call', async () => {
  const addresses = ['93.184.216.34', '127.0.0.1'];
  const lookup = ((_name: string, _options: object, done: (...found: unknown[]) => void) =>
    done(null, [{ address: addresses.shift() ?? '127.0.0.1', family: 4 }])) as never;
  const outbound = createOutbound({ policy: createAddressPolicy([]), lookup });
  // Another instance, since one reuses a resolved address for some seconds.
  const laterOutbound = createOutbound({ policy: createAddressPolicy([]), lookup });
  try {
    const url = 'https://rebinding.example.com/token';
    expect(await outbound.examine(url)).toBeUndefined();
    const call = outbound.fetch(url, {}, { deadlineMilliseconds: 2_000, maxBytes: 100 });
    await expect(call).rejects.toMatchObject({ reason: 'address' });
    expect(await laterOutbound.examine(url)).toBe('private_address');
  } finally {
    await outbound.close();
    await laterOutbound.close();
  }
});
