/**
 * The provider and platform of the campaign: many users who sign in without a form, refresh tokens that are valid once,
 * threads that name their user, and endpoints that fail on demand, before or after the request takes effect.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { userIdOf } from '../../src/gatehouse/users/user-id.ts';
import type { BrokenResponse } from '../support/broken-responses.ts';

export const ENDPOINTS = ['discovery', 'jwks', 'token', 'refresh', 'revocation', 'platform'] as const;
export type Endpoint = (typeof ENDPOINTS)[number];

export interface Breakage {
  endpoint: Endpoint;
  /** Whether the request takes effect before the failure. With `after`, the content of the response is lost. */
  when: 'before' | 'after';
  response: BrokenResponse;
}

export interface CampaignProvider {
  url: string;
  /** The delay of a token response; undefined: the usual delay. */
  delayMilliseconds: number | undefined;
  /** Breaks an endpoint. @returns repairs it, and cuts hanging responses */
  break(breakage: Breakage): () => void;
  /** Replaces the only signing key. */
  replaceKey(): Promise<void>;
  /** Signs in this user for an authorization request. @returns the callback URL */
  authorize(location: string, name: string): string;
  /** Whether this refresh token is valid. */
  accepts(refreshToken: string | undefined): boolean;
  refreshes(): number;
  /** Requested paths that are not endpoints, such as the target of redirects. Must stay empty. */
  trapped(): readonly string[];
  close(): Promise<void>;
}

interface Person {
  name: string;
  admin: boolean;
}

/** @param options `lifetimeSeconds`: `expires_in` of token responses; the platform accepts access tokens forever */
export async function startCampaignProvider(options: {
  clientId: string;
  lifetimeSeconds: () => number;
  usualDelayMilliseconds: () => number;
  isAdmin: (name: string) => boolean;
}): Promise<CampaignProvider> {
  let signing = await newKey();
  const codes = new Map<string, Person & { nonce: string }>();
  const refreshTokens = new Map<string, Person>();
  const owners = new Map<string, string>();
  const broken = new Map<Endpoint, Breakage>();
  const hanging = new Set<ServerResponse>();
  const trapped: string[] = [];
  let refreshes = 0;

  const server = createServer(async (req, res) => {
    const form = new URLSearchParams(await textOf(req));
    const { pathname, searchParams } = new URL(req.url ?? '', provider.url);
    if (pathname === '/authorize') return res.writeHead(302, { location: loginRequired(searchParams) }).end();
    const endpoint = endpointOf(pathname, form);
    if (endpoint === undefined) {
      trapped.push(pathname);
      return send(res, 404, {});
    }
    const breakage = broken.get(endpoint);
    if (breakage?.when === 'before') return breakWith(breakage, res, '{}');
    const [status, body] = await responseOf(endpoint, req, form);
    if (breakage) return breakWith(breakage, res, JSON.stringify(body));
    if (endpoint === 'token' || endpoint === 'refresh')
      await sleep(provider.delayMilliseconds ?? options.usualDelayMilliseconds());
    send(res, status, body);
  });

  function breakWith({ response }: Breakage, res: ServerResponse, body: string): void {
    hanging.add(res);
    res.once('close', () => hanging.delete(res));
    response(res, { trapUrl: `${provider.url}/trap`, body });
  }

  async function responseOf(
    endpoint: Endpoint,
    req: IncomingMessage,
    form: URLSearchParams,
  ): Promise<[number, object]> {
    switch (endpoint) {
      case 'discovery':
        return [200, metadata()];
      case 'jwks':
        return [200, { keys: [signing.jwk] }];
      case 'token': {
        const code = form.get('code') ?? '';
        const issuedCode = codes.get(code);
        codes.delete(code);
        return issuedCode ? [200, await tokensOf(issuedCode, issuedCode.nonce)] : [400, { error: 'invalid_grant' }];
      }
      case 'refresh': {
        const token = form.get('refresh_token') ?? '';
        const owner = refreshTokens.get(token);
        refreshTokens.delete(token);
        if (!owner) return [400, { error: 'invalid_grant' }];
        refreshes += 1;
        return [200, await tokensOf(owner)];
      }
      case 'revocation':
        refreshTokens.delete(form.get('token') ?? '');
        return [200, {}];
      case 'platform': {
        const owner = owners.get(req.headers.authorization?.replace('Bearer ', '') ?? '');
        return owner === undefined ? [401, {}] : [200, { owner }];
      }
    }
  }

  async function tokensOf(person: Person, nonce?: string): Promise<object> {
    const { name, admin } = person;
    const accessToken = randomBytes(24).toString('base64url');
    const refreshToken = randomBytes(24).toString('base64url');
    owners.set(accessToken, userIdOf(provider.url, name));
    refreshTokens.set(refreshToken, { name, admin });
    const claims = { name, ...(nonce ? { nonce } : {}), ...(admin ? { groups: ['gatehouse-admins'] } : {}) };
    const idToken = new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: signing.jwk.kid });
    idToken
      .setIssuer(provider.url)
      .setAudience(options.clientId)
      .setSubject(name)
      .setIssuedAt()
      .setExpirationTime('5m');
    return {
      access_token: accessToken,
      refresh_token: refreshToken,
      id_token: await idToken.sign(signing.privateKey),
      token_type: 'Bearer',
      expires_in: options.lifetimeSeconds(),
    };
  }

  /** The response to checks of the app, which send `prompt=none` without a browser. */
  const loginRequired = (request: URLSearchParams) => callbackUrl(request, { error: 'login_required' });

  function callbackUrl(request: URLSearchParams, parameters: Record<string, string>): string {
    const target = new URL(request.get('redirect_uri') ?? '');
    target.search = new URLSearchParams({
      ...parameters,
      state: request.get('state') ?? '',
      iss: provider.url,
    }).toString();
    return target.href;
  }

  const metadata = () => ({
    issuer: provider.url,
    authorization_endpoint: `${provider.url}/authorize`,
    token_endpoint: `${provider.url}/token`,
    jwks_uri: `${provider.url}/jwks`,
    revocation_endpoint: `${provider.url}/revocation`,
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
    id_token_signing_alg_values_supported: ['ES256'],
    authorization_response_iss_parameter_supported: true,
  });

  server.keepAliveTimeout = 60_000;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const provider: CampaignProvider = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    delayMilliseconds: undefined,
    break(breakage) {
      broken.set(breakage.endpoint, breakage);
      return () => {
        broken.delete(breakage.endpoint);
        for (const res of hanging) res.destroy();
      };
    },
    async replaceKey() {
      signing = await newKey();
    },
    authorize(location, name) {
      const request = new URL(location).searchParams;
      const code = randomBytes(16).toString('base64url');
      codes.set(code, { name, admin: options.isAdmin(name), nonce: request.get('nonce') ?? '' });
      return callbackUrl(request, { code });
    },
    accepts: (refreshToken) => refreshTokens.has(refreshToken ?? ''),
    refreshes: () => refreshes,
    trapped: () => trapped,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return provider;
}

async function newKey() {
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
  const kid = randomBytes(8).toString('hex');
  return { privateKey, jwk: { ...(await exportJWK(publicKey)), alg: 'ES256', kid, use: 'sig' } };
}

function endpointOf(path: string, form: URLSearchParams): Endpoint | undefined {
  if (path === '/token') return form.get('grant_type') === 'refresh_token' ? 'refresh' : 'token';
  if (path === '/.well-known/openid-configuration') return 'discovery';
  if (path === '/1/threads/current') return 'platform';
  return ENDPOINTS.find((name) => path === `/${name}`);
}

function send(res: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
  if (!res.destroyed) res.writeHead(status, headers).end(text);
}

async function textOf(req: IncomingMessage): Promise<string> {
  const chunks = await Array.fromAsync(req as AsyncIterable<Buffer>).catch(() => []);
  return Buffer.concat(chunks).toString();
}
