/** PAR (RFC 9126), DPoP (RFC 9449) and private_key_jwt (RFC 7523), with openid-client. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import * as oidc from 'openid-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SandboxClient } from '../../src/sandbox/clients.ts';
import {
  beginAs,
  CALLBACK_URL,
  CLIENT,
  createBrowser,
  type ForeignClient,
  FULL_SCOPE,
  PASSWORD,
  startForeignClient,
} from './foreign-client.ts';

let client: ForeignClient;
const publishedKeys: { keys: JWK[] } = { keys: [] };
const keyServer = createServer((_req, res) => {
  res.setHeader('content-type', 'application/json').end(JSON.stringify(publishedKeys));
});

beforeAll(async () => {
  await new Promise<void>((resolve) => keyServer.listen(0, '127.0.0.1', resolve));
  const jwksUri = `http://127.0.0.1:${(keyServer.address() as AddressInfo).port}/jwks`;
  const clientWith = (clientId: string, changes: Partial<SandboxClient>): SandboxClient => ({
    ...CLIENT,
    clientId,
    ...changes,
  });
  client = await startForeignClient({
    clients: [
      CLIENT,
      clientWith('pushed', { settings: { requirePushedRequests: true } }),
      clientWith('bound', { settings: { requireDpop: true, requireDpopNonce: true } }),
      { clientId: 'keyed', redirectUris: [CALLBACK_URL], tokenEndpointAuthMethod: 'private_key_jwt', jwksUri },
    ],
  });
});
afterAll(async () => {
  await client.sandbox.close();
  keyServer.close();
});

function configOf(clientId: string, auth: oidc.ClientAuth = oidc.ClientSecretBasic(CLIENT.clientSecret)) {
  const config = new oidc.Configuration(client.config.serverMetadata(), clientId, {}, auth);
  oidc.allowInsecureRequests(config);
  return config;
}

async function signInAndAllow(url: string) {
  const browser = createBrowser();
  const consent = await browser.submit(await browser.get(url), { login: 'user@example.test', password: PASSWORD });
  return browser.submit(consent, {}, { button: 'Allow' });
}

describe('pushed authorization requests', () => {
  async function pushRequest(config: oidc.Configuration) {
    const pkceCodeVerifier = oidc.randomPKCECodeVerifier();
    const url = await oidc.buildAuthorizationUrlWithPAR(config, {
      redirect_uri: CALLBACK_URL,
      scope: FULL_SCOPE,
      state: 'the-state',
      prompt: 'consent',
      code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: 'S256',
    });
    return { url, checks: { pkceCodeVerifier, expectedState: 'the-state' } };
  }

  it('have only their reference in the URL, and lead to tokens', async () => {
    const config = configOf('pushed');
    const { url, checks } = await pushRequest(config);
    expect([...url.searchParams.keys()].sort()).toEqual(['client_id', 'request_uri']);

    const tokens = await oidc.authorizationCodeGrant(config, new URL((await signInAndAllow(url.href)).url), checks);
    expect((await client.thread(tokens.access_token)).status).toBe(200);
  });

  it('are required for an app with that setting, and optional for others', async () => {
    const { url } = await beginAs(configOf('pushed'), FULL_SCOPE);
    expect((await createBrowser().get(url)).url).toContain('error=invalid_request');
    expect((await pushRequest(client.config)).url.searchParams.get('request_uri')).toBeTruthy();
  });
});

describe('DPoP', () => {
  it('binds tokens to a key at the token endpoint and the platform, with a nonce if the app requires it', async () => {
    const config = configOf('bound');
    const DPoP = oidc.getDPoPHandle(config, await oidc.randomDPoPKeyPair());
    const verifier = oidc.randomPKCECodeVerifier();
    const url = oidc.buildAuthorizationUrl(config, {
      redirect_uri: CALLBACK_URL,
      scope: FULL_SCOPE,
      prompt: 'consent',
      state: 'the-state',
      code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    });
    const callbackUrl = new URL((await signInAndAllow(url.href)).url);
    const checks = { pkceCodeVerifier: verifier, expectedState: 'the-state' };
    const tokens = await oidc.authorizationCodeGrant(config, callbackUrl, checks, undefined, { DPoP });
    expect(tokens.token_type).toBe('dpop');

    const resource = new URL(`${client.sandbox.platformUrl}/1/threads/current`);
    const read = (token: string, proof = DPoP) =>
      oidc.fetchProtectedResource(config, token, resource, 'GET', undefined, undefined, { DPoP: proof });
    expect((await read(tokens.access_token)).status).toBe(200);

    const responseWithoutProof = await client.thread(tokens.access_token);
    expect([responseWithoutProof.status, responseWithoutProof.headers.get('www-authenticate')]).toEqual([
      401,
      'Bearer error="invalid_token"',
    ]);

    const otherKey = oidc.getDPoPHandle(config, await oidc.randomDPoPKeyPair());
    const refused = await read(tokens.access_token, otherKey).catch(({ cause }) => cause);
    expect(JSON.stringify(refused)).toContain('invalid_dpop_proof');

    const renewed = await oidc.refreshTokenGrant(config, tokens.refresh_token ?? '', undefined, { DPoP });
    expect((await read(renewed.access_token)).status).toBe(200);
  });

  it('has the same algorithms in discovery and in the challenge of the platform', async () => {
    const { dpop_signing_alg_values_supported: listed } = client.config.serverMetadata();
    const response = await fetch(`${client.sandbox.platformUrl}/1/threads/current`, {
      headers: { authorization: 'DPoP unknown' },
    });
    expect(response.headers.get('www-authenticate')).toBe(`DPoP algs="${listed?.join(' ')}", error="invalid_token"`);
  });

  it('is required for an app with that setting', async () => {
    const { url, finish } = await beginAs(configOf('bound'), 'openid');
    await expect(finish(await signInAndAllow(url))).rejects.toMatchObject({ error: 'invalid_grant' });
  });
});

describe('private_key_jwt', () => {
  const pairs = ['first', 'second'].map((kid) => ({ kid, pair: generateKeyPair('ES256', { extractable: true }) }));
  const configWithKey = async (at: number) => {
    const { kid, pair } = pairs[at] as (typeof pairs)[number];
    return configOf('keyed', oidc.PrivateKeyJwt({ key: (await pair).privateKey, kid }));
  };
  const publishKeys = async (...at: number[]) => {
    publishedKeys.keys = await Promise.all(
      at.map(async (index) => {
        const { kid, pair } = pairs[index] as (typeof pairs)[number];
        return { ...(await exportJWK((await pair).publicKey)), kid, alg: 'ES256', use: 'sig' };
      }),
    );
  };

  it('accepts a key that the app publishes, and refuses any other', async () => {
    await publishKeys(0);
    const config = await configWithKey(0);
    const tokens = await client.signIn({ appConfig: config });
    expect((await client.thread(tokens.access_token)).status).toBe(200);
    expect((await oidc.refreshTokenGrant(config, tokens.refresh_token ?? '')).access_token).toBeTruthy();

    const refused = await oidc.refreshTokenGrant(await configWithKey(1), 'any').catch((error: unknown) => error);
    expect(refused).toMatchObject({ error: 'invalid_client' });
  });
});
