/** Users revoke the apps that they allowed, and apps receive a logout token when a session ends. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import * as oidc from 'openid-client';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CLIENT, createBrowser, type ForeignClient, openConsole, startForeignClient } from './foreign-client.ts';

let client: ForeignClient;
let logoutTokens: string[] = [];
let responseStatus = 200;
const appServer = createServer(async (req, res) => {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  logoutTokens.push(new URLSearchParams(Buffer.concat(chunks).toString()).get('logout_token') ?? '');
  res.writeHead(responseStatus).end();
});

beforeAll(async () => {
  await new Promise<void>((resolve) => appServer.listen(0, '127.0.0.1', resolve));
  const backchannelLogoutUri = `http://127.0.0.1:${(appServer.address() as AddressInfo).port}/logout`;
  client = await startForeignClient({ clients: [{ ...CLIENT, backchannelLogoutUri }], maxApprovals: 2 });
});
beforeEach(() => {
  logoutTokens = [];
  responseStatus = 200;
});
afterAll(async () => {
  await client.sandbox.close();
  appServer.close();
});

describe('apps you allowed', () => {
  it('describes what each app may do, and revoking ends its tokens and its consent', async () => {
    const browser = createBrowser();
    const tokens = await client.signIn({ browser });
    const page = await browser.get(`${client.sandbox.issuer}/account`);
    expect(page.body).toContain('Foreign client');
    expect(page.body).toContain('Read your documents, spreadsheets and chats');
    expect(page.body).not.toContain('the pages of this sandbox');

    const pageAfterRevocation = await browser.submit(page, {}, { button: 'Revoke access' });
    expect(pageAfterRevocation.body).toContain('No apps yet');
    expect((await client.thread(tokens.access_token)).status).toBe(401);
    await expect(oidc.refreshTokenGrant(client.config, tokens.refresh_token ?? '')).rejects.toMatchObject({
      error: 'invalid_grant',
    });

    const consentPage = await browser.get((await client.begin('openid', { prompt: '' })).url.replace(/&?prompt=/, ''));
    expect(consentPage.body).toContain('Allow Foreign client?');
  });

  it('requires sign-in, and refuses a form without the CSRF token', async () => {
    const url = `${client.sandbox.issuer}/account`;
    expect((await createBrowser().get(url)).body).toContain('name="password"');

    const otherBrowser = createBrowser();
    const { access_token } = await client.signIn({ login: 'second@example.test' });
    await client.signIn({ browser: otherBrowser });
    const forged = new URLSearchParams({ app: CLIENT.clientId });
    expect((await otherBrowser.request(`${url}/revoke`, { method: 'POST', body: forged })).status).toBe(403);

    await otherBrowser.submit(await otherBrowser.get(url), {}, { button: 'Revoke access' });
    expect((await client.thread(access_token)).status).toBe(200);
  });

  it('ends the oldest approval of an app over the maximum', async () => {
    const login = 'admin@example.test';
    const tokens = [await client.signIn({ login }), await client.signIn({ login }), await client.signIn({ login })];
    const statuses = await Promise.all(
      tokens.map(async ({ access_token }) => (await client.thread(access_token)).status),
    );
    expect(statuses).toEqual([401, 200, 200]);
  });
});

describe('back-channel logout', () => {
  const verifyLogoutToken = (token = '') =>
    jwtVerify(token, createRemoteJWKSet(new URL(`${client.sandbox.issuer}/jwks`)), {
      issuer: client.sandbox.issuer,
      audience: CLIENT.clientId,
      typ: 'logout+jwt',
    });

  it('notifies the app when the user signs out here', async () => {
    const browser = createBrowser();
    const tokens = await client.signIn({ browser });
    await browser.submit(await browser.get(`${client.sandbox.issuer}/sign-out`), {}, { button: 'Sign out' });
    expect(logoutTokens).toHaveLength(1);

    const { payload } = await verifyLogoutToken(logoutTokens[0]);
    expect(payload).toMatchObject({
      sub: 'sbx-00u1',
      sid: tokens.claims()?.sid,
      events: { 'http://schemas.openid.net/event/backchannel-logout': {} },
      jti: expect.any(String),
    });
    expect(payload.nonce).toBeUndefined();
  });

  it('notifies the app when an administrator ends all sessions, even if the app refuses the token', async () => {
    const browser = createBrowser();
    await client.signIn({ browser });
    responseStatus = 500;
    const admin = await openConsole(client);
    await admin.browser.submit(await admin.open('/users/sbx-00u1'), {}, { button: 'Sign out everywhere' });
    expect(logoutTokens.length).toBeGreaterThan(0);
    expect((await verifyLogoutToken(logoutTokens.at(-1))).payload.sub).toBe('sbx-00u1');
    expect((await browser.get((await client.begin()).url)).body).toContain('name="password"');
    expect(client.failures.splice(0).length).toBe(logoutTokens.length);
  });
});
