/**
 * Simulates a well-known provider on loopback from its profile: an OAuth server with its API. The host of each URL
 * becomes the first segment of the path (`https://zoom.us/oauth/token` is `/zoom.us/oauth/token`).
 */
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { PRESETS, type Preset, presetApp } from '../../src/gatehouse/connected-apps/presets.ts';
import { CLIENT_SECRET } from './gatehouse.ts';
import { documentAtLoopback, settingsAtLoopback } from './providers/loopback.ts';
import type { Issued, Json, Profile, Reply } from './providers/profile.ts';

export interface ProviderSimulator {
  preset: Preset;
  /** An entry of `CONNECTED_APPS_FILE` with the settings of the preset, an API if it has none, and sign-in for all. */
  app(gatehouseUrl: string): Json;
  /** The response body of the API. */
  threadBody: unknown;
  isOpenId: boolean;
  hasRevocationEndpoint: boolean;
  /** Whether its revocation endpoint accepts requests as in RFC 7009. */
  acceptsRevocation: boolean;
  /**
   * Ends the access of every user, like a revocation at the provider, but keeps the consent. Refresh tokens are then
   * refused with this reply.
   */
  endGrants(refusal: Reply): void;
  acceptOnlySecret(secret: string): void;
  /** The number of accepted refresh tokens. */
  refreshes(): number;
  /** The number of tokens that were revoked at its endpoint. */
  revocations(): number;
  close(): Promise<void>;
}

const CLIENT_ID = 'simulated-client_1';
/** For providers whose tokens are for the APIs of their customers. */
const EXAMPLE_PLATFORM = { apiBaseUrl: 'https://api.example.com', threadPath: '/1/threads/current' };
const PERSON = { sub: 'person-1', name: 'Ada Quill', email: 'ada@example.test' };

interface Grant {
  scopes: readonly string[];
  access: Map<string, number>;
  refreshToken: string | undefined;
  spent: Set<string>;
  isAlive: boolean;
}

interface Code {
  request: URLSearchParams;
  hasRefreshToken: boolean;
}

export async function startProviderSimulator(profile: Profile): Promise<ProviderSimulator> {
  const preset = PRESETS.find(({ id }) => id === profile.preset);
  if (!preset) throw new Error(`There is no preset "${profile.preset}".`);
  const { privateKey, publicKey } = await generateKeyPair('RS256');
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256', use: 'sig' };
  const examples = Object.fromEntries(
    Object.entries(preset.placeholders).map(([name, { example }]) => [name, example]),
  );
  const settings = presetApp(preset, examples);
  const codes = new Map<string, Code>();
  const grants: Grant[] = [];
  const counts = { refreshes: 0, revocations: 0 };
  let hasConsented = false;
  let acceptedSecret = CLIENT_SECRET;
  let refusedRefresh = profile.refusedRefresh;

  const server = createServer((req, res) => {
    handle(req, res).catch((error: unknown) => void res.destroy(error instanceof Error ? error : undefined));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${port}`;
  const toLoopback = (url: string) => url.replace(/^https:\//, origin);

  const document = profile.discovery?.document ?? {};
  const isOpenId = settings.scopes?.includes('openid') === true;
  const platform = settings.apiBaseUrl === undefined && !profile.isForSignIn ? EXAMPLE_PLATFORM : {};
  const { apiBaseUrl = '', threadPath = '' } = { ...settings, ...platform };
  const threadUrl = (profile.apiUrlInTokens ?? apiBaseUrl) + threadPath;
  const api: Record<string, unknown> = { [threadUrl]: PERSON, ...profile.api };
  const urls = {
    authorization: settings.endpoints?.authorization ?? document.authorization_endpoint,
    token: settings.endpoints?.token ?? document.token_endpoint,
    revocation: settings.endpoints?.revocation ?? document.revocation_endpoint,
    userinfo: document.userinfo_endpoint,
    keys: document.jwks_uri,
  };

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(req.url ?? '/', origin);
    const url = `https:/${pathname}`;
    const body = await textOf(req);
    if (url === urls.authorization) return authorize(searchParams, res);
    const [status, reply] = await replyTo(url, req, body);
    const isForm = profile.sendsForms && url === urls.token && !req.headers.accept?.includes('application/json');
    const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json';
    const text = isForm ? new URLSearchParams(reply as Record<string, string>).toString() : JSON.stringify(reply);
    const headers = { 'content-type': type, 'cache-control': 'no-store', date: new Date(Date.now()).toUTCString() };
    res.writeHead(status, headers).end(reply === '' ? '' : text);
  }

  function authorize(request: URLSearchParams, res: ServerResponse): void {
    const target = new URL(request.get('redirect_uri') ?? '');
    const error = authorizationError(request);
    const code = randomUUID();
    if (error === undefined) {
      codes.set(code, { request, hasRefreshToken: profile.issuesRefreshToken(request, hasConsented) });
      hasConsented = true;
    }
    const issuer = profile.sendsIssuer ? { iss: toLoopback(String(document.issuer)) } : {};
    const parameters = { ...(error === undefined ? { code } : { error }), ...profile.callback, ...issuer };
    for (const [name, value] of Object.entries(parameters)) target.searchParams.set(name, String(value));
    target.searchParams.set('state', request.get('state') ?? '');
    if (profile.postsCallback) postForm(target, res);
    else res.writeHead(302, { location: target.href }).end();
  }

  function postForm(target: URL, res: ServerResponse): void {
    const inputs = [...target.searchParams].map(
      ([name, value]) => `<input type="hidden" name="${name}" value="${value}">`,
    );
    const form = `<form method="post" action="${target.origin}${target.pathname}">${inputs.join('')}<button>Go on</button></form>`;
    res.writeHead(200, { 'content-type': 'text/html' }).end(`<!doctype html><title>Provider</title>${form}`);
  }

  function authorizationError(request: URLSearchParams): string | undefined {
    if (request.get('client_id') !== CLIENT_ID) return 'unauthorized_client';
    // There are no sign-in pages here.
    return request.get('prompt') === 'none' ? 'login_required' : profile.refusesAuthorization?.(request);
  }

  async function replyTo(url: string, req: IncomingMessage, body: string): Promise<Reply> {
    if (url === profile.discovery?.url) return [200, documentAtLoopback(document, toLoopback)];
    if (url === urls.keys) return [200, { keys: [jwk] }];
    if (url === urls.token) return tokenReply(req, new URLSearchParams(body));
    if (url === urls.revocation) return revoke(req, body);
    const { sub = PERSON.sub } = profile.claims ?? {};
    const content = url === urls.userinfo ? { ...PERSON, sub, ...profile.userinfo } : api[url];
    if (!content) return [404, { error: 'not_found' }];
    return grantOf(/^Bearer (.+)$/.exec(req.headers.authorization ?? '')?.[1]) ? [200, content] : profile.refusedCall;
  }

  const grantOf = (accessToken = '') =>
    grants.find(({ access, isAlive }) => isAlive && Date.now() < (access.get(accessToken) ?? 0));

  async function tokenReply(req: IncomingMessage, form: URLSearchParams): Promise<Reply> {
    const refusal = profile.refusesToken?.(form, req.method ?? '');
    if (refusal) return refusal;
    if (!authenticatesClient(req, form)) return profile.refusedClient ?? [401, { error: 'invalid_client' }];
    return form.get('grant_type') === 'refresh_token' ? refresh(form.get('refresh_token') ?? '') : redeem(form);
  }

  function authenticatesClient({ headers }: IncomingMessage, form: URLSearchParams): boolean {
    const methods = profile.clientAuthentication ?? ['client_secret_basic', 'client_secret_post'];
    const [, basic = ''] = /^Basic (.+)$/.exec(headers.authorization ?? '') ?? [];
    const isBasic = Buffer.from(basic, 'base64').toString() === `${CLIENT_ID}:${acceptedSecret}`;
    const isPost = form.get('client_id') === CLIENT_ID && form.get('client_secret') === acceptedSecret;
    return (isBasic && methods.includes('client_secret_basic')) || (isPost && methods.includes('client_secret_post'));
  }

  async function redeem(form: URLSearchParams): Promise<Reply> {
    const code = codes.get(form.get('code') ?? '');
    codes.delete(form.get('code') ?? '');
    const verifier = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const isProved = profile.checksPkce === false || verifier === code?.request.get('code_challenge');
    if (!code || !isProved || form.get('redirect_uri') !== code.request.get('redirect_uri'))
      return profile.refusedCode ?? [400, { error: 'invalid_grant' }];
    const requested = (code.request.get('scope') ?? '').split(' ').filter(Boolean);
    const grant: Grant = {
      scopes: profile.grantedScopes?.(requested) ?? requested,
      access: new Map(),
      refreshToken: code.hasRefreshToken ? randomUUID() : undefined,
      spent: new Set(),
      isAlive: true,
    };
    grants.push(grant);
    return [200, await issue(grant, 'code', code.request.get('nonce') ?? undefined)];
  }

  async function refresh(token: string): Promise<Reply> {
    const grant = grants.find(({ refreshToken, spent }) => refreshToken === token || spent.has(token));
    const isReuse = grant?.spent.has(token) === true;
    if (grant && isReuse && profile.detectsReuse) grant.isAlive = false;
    if (!grant?.isAlive || isReuse) return refusedRefresh;
    counts.refreshes += 1;
    if (profile.afterRefresh === 'spent') {
      grant.spent.add(token);
      grant.refreshToken = randomUUID();
    }
    if (profile.endsOldAccess) grant.access.clear();
    return [200, await issue(grant, 'refresh', undefined)];
  }

  async function issue(grant: Grant, kind: Issued['kind'], nonce: string | undefined): Promise<Json> {
    const accessToken = randomUUID();
    grant.access.set(accessToken, Date.now() + (profile.accessTokenSeconds ?? Number.POSITIVE_INFINITY) * 1000);
    const hasRefreshToken = kind === 'code' || profile.afterRefresh !== 'silent';
    return profile.tokens({
      kind,
      accessToken,
      scopes: grant.scopes,
      apiUrl: toLoopback(profile.apiUrlInTokens ?? '').replace('127.0.0.1', 'localhost'),
      refreshToken: hasRefreshToken ? grant.refreshToken : undefined,
      idToken: grant.scopes.includes('openid') ? await idToken(nonce) : undefined,
    });
  }

  function idToken(nonce: string | undefined): Promise<string> {
    const { iss = document.issuer, ...claims } = profile.claims ?? {};
    return new SignJWT({ ...PERSON, ...(nonce && { nonce }), ...claims })
      .setProtectedHeader({ alg: 'RS256', kid: jwk.kid })
      .setIssuer(toLoopback(String(iss)))
      .setAudience(CLIENT_ID)
      .setIssuedAt(Math.floor(Date.now() / 1000))
      .setExpirationTime(Math.floor(Date.now() / 1000) + 3600)
      .sign(privateKey);
  }

  function revoke(req: IncomingMessage, body: string): Reply {
    const { reply = [200, ''], contentType: takes = 'application/x-www-form-urlencoded' } = profile.revocation ?? {};
    if (!req.headers['content-type']?.startsWith(takes)) return [400, { error: 'invalid_request' }];
    const token = new URLSearchParams(body).get('token') ?? '';
    const grant = grants.find(({ refreshToken, access }) => refreshToken === token || access.has(token));
    if (grant) {
      grant.isAlive = false;
      counts.revocations += 1;
    }
    return reply;
  }

  return {
    preset,
    app: (gatehouseUrl) => ({
      ...(isOpenId && { signIn: { allow: 'everyone' } }),
      ...settingsAtLoopback({ ...settings, ...platform }, toLoopback, `localhost:${port}`),
      id: preset.id,
      name: preset.name,
      clientId: CLIENT_ID,
      clientSecret: { env: 'TEST_CLIENT_SECRET' },
      callbackUrls: [`${gatehouseUrl}/oauth/callback/${preset.id}`],
    }),
    threadBody: api[threadUrl],
    isOpenId,
    hasRevocationEndpoint: urls.revocation !== undefined,
    acceptsRevocation: urls.revocation !== undefined && profile.revocation?.contentType === undefined,
    endGrants(refusal) {
      refusedRefresh = refusal;
      for (const grant of grants) grant.isAlive = false;
    },
    acceptOnlySecret(secret) {
      acceptedSecret = secret;
    },
    refreshes: () => counts.refreshes,
    revocations: () => counts.revocations,
    async close() {
      server.closeAllConnections();
      await server[Symbol.asyncDispose]();
    },
  };
}
