/** Tokens at the platform, refreshes, and revocation. */
import * as oidc from 'openid-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SandboxClient } from '../../src/sandbox/clients.ts';
import { advanceClock } from '../support/test-clock.ts';
import { CLIENT, createBrowser, type ForeignClient, startForeignClient } from './foreign-client.ts';

let client: ForeignClient;

beforeAll(async () => {
  client = await startForeignClient();
});
afterAll(() => client.sandbox.close());

describe('the platform', () => {
  it('returns to each user their own thread', async () => {
    const first = await client.signIn();
    const second = await client.signIn({ login: 'second@example.test' });
    const [firstResponse, secondResponse] = await Promise.all([
      client.thread(first.access_token),
      client.thread(second.access_token),
    ]);
    expect([firstResponse.status, secondResponse.status]).toEqual([200, 200]);

    const [firstThread, secondThread] = [await firstResponse.json(), await secondResponse.json()] as {
      thread: { author: { name: string } };
      html: string;
    }[];
    expect(firstThread?.thread.author.name).toBe('Uma Okafor');
    expect(secondThread?.thread.author.name).toBe('Sven Lindqvist');
    expect(firstThread?.html.length).toBeGreaterThan(1_500);
    expect(firstThread?.html).not.toBe(secondThread?.html);
  });

  it('adds headers that a relay must filter', async () => {
    const { access_token } = await client.signIn();
    const { headers } = await client.thread(access_token);
    expect(headers.get('server')).toBe('nginx');
    expect(headers.get('set-cookie')).toContain('platform_affinity');
    expect(headers.get('etag')).toBeTruthy();
    expect(headers.get('x-ratelimit-limit')).toBe('50');
    expect(Number(headers.get('x-ratelimit-remaining'))).toBeLessThan(50);
  });

  it('responds without a token with a bare challenge', async () => {
    for (const authorization of [undefined, 'Basic eDp5']) {
      const response = await fetch(`${client.sandbox.platformUrl}/1/threads/current`, {
        headers: authorization === undefined ? {} : { authorization },
      });
      expect(response.status).toBe(401);
      expect(response.headers.get('www-authenticate')).toBe('Bearer');
      expect(await response.json()).toMatchObject({ error: expect.any(String), error_description: expect.any(String) });
    }
  });

  it('refuses unknown and malformed tokens, refresh tokens and tokens in the URL', async () => {
    const { refresh_token = '', access_token } = await client.signIn();
    for (const token of ['unknown', '', 'two words', 'ey.ey.ey', 'ä', refresh_token]) {
      const response = await client.thread(encodeURI(token));
      expect([token, response.status]).toEqual([token, 401]);
      expect(response.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"');
      expect(await response.json()).toMatchObject({ error: 'invalid_token' });
    }
    const inUrl = await fetch(`${client.sandbox.platformUrl}/1/threads/current?access_token=${access_token}`);
    expect(inUrl.status).toBe(401);
  });

  it('refuses an expired token', async () => {
    const clientWithShortTokens = await startForeignClient({ accessTokenSeconds: 1 });
    const { access_token } = await clientWithShortTokens.signIn();
    advanceClock(2);
    const response = await clientWithShortTokens.thread(access_token);
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([401, 'Bearer error="invalid_token"']);

    await clientWithShortTokens.sandbox.close();
  });

  it('refuses a token without a platform scope with 403, and accepts either scope', async () => {
    const { access_token } = await client.signIn({ scope: 'openid profile' });
    const response = await client.thread(access_token);
    expect(response.status).toBe(403);
    expect(response.headers.get('www-authenticate')).toContain('error="insufficient_scope"');
    expect(await response.json()).toMatchObject({ error: 'insufficient_scope' });

    const full = await client.signIn({ scope: 'openid platform_full_access' });
    expect((await client.thread(full.access_token)).status).toBe(200);
  });

  it('returns 404 for other paths and 405 for other methods, as JSON', async () => {
    const other = await fetch(`${client.sandbox.platformUrl}/1/nothing`);
    expect([other.status, (await other.json()) as object]).toEqual([
      404,
      expect.objectContaining({ error: 'not_found' }),
    ]);

    const { access_token } = await client.signIn();
    const posted = await client.thread(access_token, { method: 'POST' });
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });

  it('introspects the token at each call, and returns 503 if that fails', async () => {
    const { access_token } = await client.signIn();
    client.sandbox.requests.reset();
    await client.thread(access_token);
    await client.thread(access_token);
    expect(client.sandbox.requests.count('POST /introspect')).toBe(2);

    client.sandbox.faults.set({ listener: 'identity-provider', path: '/introspect', kind: 'garbage', times: 1 });
    const failed = await client.thread(access_token);
    expect([failed.status, failed.headers.get('retry-after')]).toEqual([503, '1']);
    expect(client.failures.splice(0)).toHaveLength(1);
  });
});

describe('refreshing', () => {
  it('rotates the refresh token and returns a valid access token', async () => {
    const { refresh_token = '' } = await client.signIn();
    const renewed = await oidc.refreshTokenGrant(client.config, refresh_token);
    expect(renewed.refresh_token).not.toBe(refresh_token);
    expect((await client.thread(renewed.access_token)).status).toBe(200);
  });

  it('ends the grant when an old refresh token is used again', async () => {
    const { refresh_token = '' } = await client.signIn();
    const renewed = await oidc.refreshTokenGrant(client.config, refresh_token);
    const refused = { error: 'invalid_grant' };
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toMatchObject(refused);
    await expect(oidc.refreshTokenGrant(client.config, renewed.refresh_token ?? '')).rejects.toMatchObject(refused);
    expect((await client.thread(renewed.access_token)).status).toBe(401);
  });

  it('returns no refresh token without offline_access', async () => {
    expect((await client.signIn({ scope: 'openid platform_read_only' })).refresh_token).toBeUndefined();
  });
});

describe('revocation', () => {
  it('of the access token ends the tokens of that grant and keeps the consent', async () => {
    const browser = createBrowser();
    const { access_token, refresh_token = '' } = await client.signIn({ browser });
    await oidc.tokenRevocation(client.config, access_token);
    expect((await client.thread(access_token)).status).toBe(401);
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toMatchObject({
      error: 'invalid_grant',
    });

    const { url, finish } = await client.begin('openid platform_read_only', { prompt: 'none' });
    const tokens = await finish(await browser.get(url));
    expect((await client.thread(tokens.access_token)).status).toBe(200);
  });

  it('of the refresh token ends the tokens and the consent', async () => {
    const browser = createBrowser();
    const { access_token, refresh_token = '' } = await client.signIn({ browser });
    await oidc.tokenRevocation(client.config, refresh_token);
    expect((await client.thread(access_token)).status).toBe(401);
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toMatchObject({
      error: 'invalid_grant',
    });

    const again = await browser.get((await client.begin('openid', { prompt: '' })).url.replace(/&?prompt=/, ''));
    expect(again.body).toContain('Allow Foreign client?');
  });
});

describe('clients', () => {
  it('can introspect only their own tokens', async () => {
    const other = { ...CLIENT, clientId: 'other', clientSecret: 'the secret of the other client, also long' };
    const two = await startForeignClient({ clients: [CLIENT, other] });
    const { access_token } = await two.signIn();
    expect((await oidc.tokenIntrospection(two.config, access_token)).active).toBe(true);

    const otherConfig = new oidc.Configuration(two.config.serverMetadata(), 'other', other.clientSecret);
    oidc.allowInsecureRequests(otherConfig);
    expect((await oidc.tokenIntrospection(otherConfig, access_token)).active).toBe(false);

    await two.sandbox.close();
  });

  it('may request only their registered scopes', async () => {
    const clientWithTwoScopes = await startForeignClient({ clients: [{ ...CLIENT, scopes: ['openid', 'profile'] }] });
    const page = await createBrowser().get((await clientWithTwoScopes.begin()).url);
    expect(new URL(page.url).searchParams.get('error')).toBe('invalid_scope');
    await clientWithTwoScopes.sandbox.close();
  });

  it('must send their secret, by Basic or in the body, unless they are public', async () => {
    const publicClient: SandboxClient = {
      clientId: 'public',
      redirectUris: CLIENT.redirectUris,
      tokenEndpointAuthMethod: 'none',
    };
    const post: SandboxClient = { ...CLIENT, clientId: 'post', tokenEndpointAuthMethod: 'client_secret_post' };
    const clientOfThreeApps = await startForeignClient({ clients: [CLIENT, publicClient, post] });
    const errorOf = async (clientId: string, auth: oidc.ClientAuth) => {
      const config = new oidc.Configuration(clientOfThreeApps.config.serverMetadata(), clientId, {}, auth);
      oidc.allowInsecureRequests(config);
      return oidc
        .refreshTokenGrant(config, 'unknown')
        .catch((error: oidc.ResponseBodyError) => error.error ?? error.status);
    };
    const { clientSecret } = CLIENT;
    expect(await errorOf(CLIENT.clientId, oidc.ClientSecretBasic('wrong'))).toBe(401);
    expect(await errorOf(CLIENT.clientId, oidc.None())).toBe('invalid_client');
    expect(await errorOf('post', oidc.ClientSecretPost(clientSecret))).toBe('invalid_grant');
    expect(await errorOf('public', oidc.None())).toBe('invalid_grant');

    await clientOfThreeApps.sandbox.close();
  });
});
