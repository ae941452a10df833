/**
 * The hostile provider: an OpenID provider on plain node:http that signs users in without a form, records every
 * request, and misbehaves only in the modes that a test sets.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair } from 'jose';
import { BROKEN_RESPONSES, type BrokenResponse, type BrokenResponseName } from './broken-responses.ts';
import {
  type KeyPair,
  MODES,
  type Mode,
  type ModeContext,
  REPLACEABLE_ENDPOINTS,
  type ReplaceableEndpoint,
  type SigningKeys,
  signWith,
} from './hostile-modes.ts';

type Json = Record<string, unknown>;

/** The name of a mode, or of a broken response of an endpoint, such as `token-huge` or `jwks-status-500`. */
export type ModeName = keyof typeof MODES | `${ReplaceableEndpoint}-${BrokenResponseName}`;

export type Endpoint = ReplaceableEndpoint | 'authorize' | 'end_session' | 'platform' | 'other';

export interface Hit {
  endpoint: Endpoint;
  method: string;
  /** Path with query. */
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}

export interface Person {
  sub: string;
  name?: string;
  email?: string;
  [claim: string]: unknown;
}

export interface HostileProvider {
  issuer: string;
  clientId: string;
  clientSecret: string;
  /** Replaces all modes by these. Without modes the provider behaves correctly. */
  setModes(...modes: (ModeName | Mode)[]): void;
  /** Sets the signed-in user. */
  signInAs(person: Person): void;
  /** Replaces the signing keys by new ones with new ids. */
  rotateKeys(): Promise<void>;
  hits: Hit[];
  hitsOf(endpoint: Endpoint): Hit[];
  /** Requests to the listener that redirects point to. Must stay empty. */
  trapped: Hit[];
  /** Returns a valid logout token (OpenID Connect Back-Channel Logout 1.0) with these changes. */
  logoutToken(changes?: LogoutTokenChanges): Promise<string>;
  /** Clears hits, modes and pending requests. Keys and tokens stay. */
  reset(): void;
  /** Returns an entry of `CONNECTED_APPS_FILE` for this provider and its platform. */
  app(gatehouseUrl: string, changes?: Json): Json;
  /** The `endpoints` of an app, for a provider without discovery. */
  endpointSettings(): Record<string, string>;
  close(): Promise<void>;
}

export interface LogoutTokenChanges {
  /** Changed claims; `undefined` removes a claim. */
  claims?: Json;
  header?: Json;
  /** Default: signs with the provider's RSA key. */
  sign?: (claims: Json, header: Json, modeContext: ModeContext) => Promise<string>;
}

interface IssuedCode {
  clientId: string;
  nonce: string | undefined;
  challenge: string | undefined;
  redirectUri: string;
  scope: string;
  person: Person;
}

export async function startHostileProvider(
  options: {
    clientId?: string;
    /** IDs of further clients with the same secret. */
    otherClientIds?: string[];
    clientSecret?: string;
    person?: Person;
  } = {},
): Promise<HostileProvider> {
  const hits: Hit[] = [];
  const trapped: Hit[] = [];
  const clientId = options.clientId ?? 'hostile-client_1';
  const clientIds = [clientId, ...(options.otherClientIds ?? [])];
  const clientSecret = options.clientSecret ?? 'a:b%/+ ü, a secret with marks';
  const codes = new Map<string, IssuedCode>();
  const refreshTokens = new Map<string, Pick<IssuedCode, 'clientId' | 'scope' | 'person'>>();
  const accessTokens = new Map<string, Person>();
  const keyGenerations: SigningKeys[] = [await generateKeys('')];
  let mode: Mode = {};
  let firstRequest: URLSearchParams | undefined;
  let person = options.person ?? { sub: 'user-1', name: 'Ada Quill', email: 'ada@example.test' };

  const trap = await listen((req, res) => {
    trapped.push({ endpoint: 'other', method: req.method ?? '', url: req.url ?? '', headers: req.headers, body: '' });
    res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  const server = await listen((req, res) => {
    handle(req, res).catch((error: unknown) => void res.destroy(error instanceof Error ? error : undefined));
  });
  const issuer = urlOf(server);
  const trapUrl = urlOf(trap);
  const currentKeys = (): SigningKeys => keyGenerations.at(-1) as SigningKeys;
  const scene = (): ModeContext => ({ issuer, url: issuer, clientId, clientSecret, keys: currentKeys() });

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', issuer);
    const body = await textOf(req);
    const form = new URLSearchParams(body);
    const endpoint = endpointOf(url.pathname, form);
    hits.push({ endpoint, method: req.method ?? '', url: url.pathname + url.search, headers: req.headers, body });
    if (endpoint === 'authorize') return authorize(url.searchParams, res);
    const [code, responseBody] = await responseOf(endpoint, req, form);
    const text = responseBody === undefined ? '' : JSON.stringify(responseBody);
    const replacement: BrokenResponse | undefined = isReplaceable(endpoint) ? mode.responses?.[endpoint] : undefined;
    if (replacement) return replacement(res, { trapUrl, body: text });
    res.writeHead(code, { 'content-type': 'application/json', 'cache-control': 'no-store' }).end(text);
  }

  function endpointOf(path: string, form: URLSearchParams): Endpoint {
    if (path === (mode.discoveryPath ?? '/.well-known/openid-configuration')) return 'discovery';
    if (path === '/token') return form.get('grant_type') === 'refresh_token' ? 'refresh' : 'token';
    if (path === '/api/1/threads/current') return 'platform';
    const names = ['authorize', 'jwks', 'userinfo', 'revocation', 'end_session'] as const;
    return names.find((name) => path === `/${name}`) ?? 'other';
  }

  function authorize(received: URLSearchParams, res: ServerResponse): void {
    if (mode.repeatsFirstRequest) firstRequest ??= received;
    const request = (mode.repeatsFirstRequest && firstRequest) || received;
    const code = randomUUID();
    mode.onIssued?.(code);
    const redirectUri = request.get('redirect_uri') ?? '';
    const requestedBy = request.get('client_id') ?? '';
    codes.set(code, {
      clientId: requestedBy,
      nonce: request.get('nonce') ?? undefined,
      challenge: request.get('code_challenge') ?? undefined,
      redirectUri,
      scope: request.get('scope') ?? '',
      person: { ...person, sub: mode.subject?.(person.sub, requestedBy) ?? person.sub },
    });
    const parameters = new URLSearchParams({ code, state: request.get('state') ?? '', iss: issuer });
    mode.callback?.(parameters, scene());
    const target = new URL(redirectUri);
    target.search = parameters.toString();
    res.writeHead(302, { location: target.href }).end();
  }

  async function responseOf(
    endpoint: Endpoint,
    req: IncomingMessage,
    form: URLSearchParams,
  ): Promise<[number, unknown?]> {
    switch (endpoint) {
      case 'discovery':
        return [200, mode.metadata?.(metadata(), scene()) ?? metadata()];
      case 'jwks': {
        const keys = await publicJwks(currentKeys());
        return [200, { keys: mode.jwks?.(keys) ?? keys }];
      }
      case 'token':
      case 'refresh':
        return authenticatesClient(req, form) ? tokens(endpoint, form) : [401, { error: 'invalid_client' }];
      case 'userinfo': {
        const owner = bearer(req);
        return owner ? [200, mode.userinfo?.({ ...owner }) ?? owner] : [401, { error: 'invalid_token' }];
      }
      case 'platform': {
        const owner = bearer(req);
        return owner ? [200, { thread: { id: 't1', title: 'Harbour plan', author: { name: owner.name } } }] : [401, {}];
      }
      case 'revocation':
        if (!authenticatesClient(req, form)) return [401, { error: 'invalid_client' }];
        refreshTokens.delete(form.get('token') ?? '');
        return [200];
      default:
        return [endpoint === 'end_session' ? 200 : 404, {}];
    }
  }

  const bearer = (req: IncomingMessage) =>
    accessTokens.get(/^Bearer (.+)$/.exec(req.headers.authorization ?? '')?.[1] ?? '');

  async function tokens(endpoint: 'token' | 'refresh', form: URLSearchParams): Promise<[number, unknown]> {
    const grant = endpoint === 'token' ? redeem(form) : spend(form);
    if (!grant) return [400, { error: 'invalid_grant' }];
    const body: Record<'access_token' | 'refresh_token', string> & Json & { id_token?: string } = {
      access_token: randomUUID(),
      token_type: 'Bearer',
      expires_in: 3600,
      refresh_token: randomUUID(),
      scope: grant.scope,
      ...(grant.scope.split(' ').includes('openid') ? { id_token: await idToken(grant) } : {}),
    };
    for (const name of ['access_token', 'refresh_token', 'id_token'] as const) {
      const value = body[name];
      if (value) mode.onIssued?.(value);
    }
    accessTokens.set(body.access_token, grant.person);
    refreshTokens.set(body.refresh_token, grant);
    const changed = mode.tokenResponse?.(body) ?? body;
    return [200, (endpoint === 'refresh' && mode.refreshResponse?.(changed)) || changed];
  }

  /** A code is valid once, with the redirect URI and the PKCE verifier of its request. */
  function redeem(form: URLSearchParams): IssuedCode | undefined {
    const code = form.get('code') ?? '';
    const issued = codes.get(code);
    codes.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    return issued?.redirectUri === form.get('redirect_uri') && issued.challenge === challenge ? issued : undefined;
  }

  /** Rotates: the old refresh token is spent. */
  function spend(form: URLSearchParams): IssuedCode | undefined {
    const token = form.get('refresh_token') ?? '';
    const grant = refreshTokens.get(token);
    refreshTokens.delete(token);
    return grant && { ...grant, nonce: undefined, challenge: undefined, redirectUri: '' };
  }

  function idToken(grant: IssuedCode): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    const { nonce } = grant;
    const valid = {
      iss: issuer,
      aud: grant.clientId,
      iat: now,
      exp: now + 300,
      auth_time: now,
      ...(nonce ? { nonce } : {}),
      ...grant.person,
    };
    const claims = mode.claims?.(valid, scene()) ?? valid;
    return mode.sign?.(claims, scene()) ?? signWith(currentKeys().rs256, claims);
  }

  /** Accepts credentials by Basic (split at the first colon, halves decoded) or in the body, or only the client ID. */
  function authenticatesClient(req: IncomingMessage, form: URLSearchParams): boolean {
    const basic = /^Basic (.+)$/.exec(req.headers.authorization ?? '')?.[1];
    if (basic === undefined) {
      const secret = form.get('client_secret') ?? clientSecret;
      return clientIds.includes(form.get('client_id') ?? '') && secret === clientSecret;
    }
    const pair = Buffer.from(basic, 'base64').toString('utf8');
    const halves = [pair.slice(0, pair.indexOf(':')), pair.slice(pair.indexOf(':') + 1)];
    const [id, secret] =
      mode.basic === 'raw' ? halves : halves.map((half) => new URLSearchParams(`x=${half}`).get('x'));
    return clientIds.includes(id ?? '') && secret === clientSecret;
  }

  const endpointMetadata = () => ({
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    userinfo_endpoint: `${issuer}/userinfo`,
    revocation_endpoint: `${issuer}/revocation`,
    end_session_endpoint: `${issuer}/end_session`,
  });
  const metadata = (): Json => ({
    issuer,
    ...endpointMetadata(),
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
    id_token_signing_alg_values_supported: ['RS256', 'ES256', 'EdDSA'],
    authorization_response_iss_parameter_supported: true,
  });

  return {
    issuer,
    clientId,
    clientSecret,
    hits,
    trapped,
    hitsOf: (endpoint) => hits.filter((hit) => hit.endpoint === endpoint),
    setModes(...modes) {
      const all = modes.map((entry) => (typeof entry === 'string' ? modeNamed(entry) : entry));
      mode = Object.assign({}, ...all, { responses: Object.assign({}, ...all.map(({ responses }) => responses)) });
      firstRequest = undefined;
    },
    signInAs(next) {
      person = next as typeof person;
    },
    logoutToken({ claims: changes = {}, header: headerChanges = {}, sign } = {}) {
      const now = Math.floor(Date.now() / 1000);
      const { sub, sid } = person;
      const events = { 'http://schemas.openid.net/event/backchannel-logout': {} };
      const valid = { iss: issuer, aud: clientId, iat: now, exp: now + 120, jti: randomUUID(), events, sub, sid };
      const claims = withoutUndefined({ ...valid, ...changes });
      const header = withoutUndefined({ typ: 'logout+jwt', ...headerChanges });
      return sign?.(claims, header, scene()) ?? signWith(currentKeys().rs256, claims, header);
    },
    async rotateKeys() {
      keyGenerations.push(await generateKeys(`-${keyGenerations.length}`));
    },
    reset() {
      hits.length = 0;
      trapped.length = 0;
      mode = {};
      firstRequest = undefined;
    },
    app: (gatehouseUrl, changes = {}) => ({
      id: 'elsewhere',
      name: 'Elsewhere',
      issuer,
      clientId,
      clientSecret: { env: 'HOSTILE_CLIENT_SECRET' },
      scopes: ['openid', 'profile', 'offline_access'],
      callbackUrls: [`${gatehouseUrl}/oauth/callback/${String(changes.id ?? 'elsewhere')}`],
      apiBaseUrl: `${issuer}/api`,
      signIn: { allow: 'everyone' },
      ...changes,
    }),
    endpointSettings: () => ({
      authorization: `${issuer}/authorize`,
      token: `${issuer}/token`,
      jwks: `${issuer}/jwks`,
      userinfo: `${issuer}/userinfo`,
      revocation: `${issuer}/revocation`,
      endSession: `${issuer}/end_session`,
    }),
    async close() {
      await Promise.all([server, trap].map(closeServer));
    },
  };
}

/** The name of a broken response is its endpoint and its kind, so each kind is available at each endpoint. */
export function modeNamed(name: ModeName): Mode {
  if (name in MODES) return MODES[name as keyof typeof MODES];
  const endpoint = REPLACEABLE_ENDPOINTS.find((candidate) => name.startsWith(`${candidate}-`));
  const answer = endpoint && BROKEN_RESPONSES[name.slice(endpoint.length + 1) as BrokenResponseName];
  if (!endpoint || !answer) throw new Error(`The hostile provider has no mode "${name}".`);
  return { responses: { [endpoint]: answer } };
}

function withoutUndefined(object: Json): Json {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}

function isReplaceable(endpoint: Endpoint): endpoint is ReplaceableEndpoint {
  return (REPLACEABLE_ENDPOINTS as readonly string[]).includes(endpoint);
}

async function generateKeys(suffix: string): Promise<SigningKeys> {
  const make = async (alg: string, kid: string): Promise<KeyPair> => ({
    alg,
    kid: kid + suffix,
    ...(await generateKeyPair(alg, { extractable: true })),
  });
  const [rs256, es256, eddsa] = await Promise.all([make('RS256', 'rs'), make('ES256', 'es'), make('EdDSA', 'ed')]);
  return { rs256, es256, eddsa };
}

async function publicJwks(keys: SigningKeys): Promise<Json[]> {
  const pairs = Object.values(keys) as KeyPair[];
  return Promise.all(
    pairs.map(async ({ alg, kid, publicKey }) => ({ ...(await exportJWK(publicKey)), alg, kid, use: 'sig' })),
  );
}

async function textOf(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

function listen(listener: (req: IncomingMessage, res: ServerResponse) => void): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer(listener);
    server.once('error', reject).listen(0, '127.0.0.1', () => resolve(server));
  });
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
