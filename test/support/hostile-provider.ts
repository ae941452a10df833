/**
 * The hostile provider: an OpenID provider on plain node:http that signs every user in without a form, records every hit,
 * and misbehaves in exactly the ways that a test names.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair } from 'jose';
import { ANSWERS, type Answer, type AnswerName } from './hostile-answers.ts';
import {
  ANSWERED_ENDPOINTS,
  type AnsweredEndpoint,
  type KeyPair,
  MODES,
  type Mode,
  type Scene,
  type SigningKeys,
  signWith,
} from './hostile-modes.ts';

type Json = Record<string, unknown>;

/** A mode by name, an endpoint's broken answer by name (`token-huge`, `jwks-status-500`), or one made up by a test. */
export type ModeName = keyof typeof MODES | `${AnsweredEndpoint}-${AnswerName}`;

export type Endpoint = AnsweredEndpoint | 'authorize' | 'end_session' | 'platform' | 'other';

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
  /** Puts these modes in place of all earlier ones; with none it behaves well. */
  set(...modes: (ModeName | Mode)[]): void;
  /** Who is signed in there from now on. */
  signInAs(person: Person): void;
  /** Replaces the signing keys by new ones under new ids. */
  rotateKeys(): Promise<void>;
  hits: Hit[];
  hitsOf(endpoint: Endpoint): Hit[];
  /** What reached the listener that redirects point to: must stay empty. */
  trapped: Hit[];
  /** What it posts to end sessions here (OpenID Connect Back-Channel Logout 1.0): a proper one, but for these changes. */
  logoutToken(changes?: LogoutTokenChanges): Promise<string>;
  /** Forgets hits, modes and pending requests; keys and tokens stay. */
  reset(): void;
  /** An entry of `CONNECTED_APPS_FILE` for this provider, with its own platform behind it. */
  app(gatehouseUrl: string, changes?: Json): Json;
  /** The same with hand-set endpoints, for a provider without discovery. */
  handSetEndpoints(): Record<string, string>;
  close(): Promise<void>;
}

export interface LogoutTokenChanges {
  /** In place of the proper ones; `undefined` leaves one out. */
  claims?: Json;
  header?: Json;
  /** In place of a signature by the provider's RSA key. */
  sign?: (claims: Json, header: Json, scene: Scene) => Promise<string>;
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
    /** Of further clients, with the same secret. */
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
  const generations: SigningKeys[] = [await makeKeys('')];
  let mode: Mode = {};
  let firstPending: URLSearchParams | undefined;
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
  const keysNow = (): SigningKeys => generations.at(-1) as SigningKeys;
  const scene = (): Scene => ({ issuer, url: issuer, clientId, clientSecret, keys: keysNow() });

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', issuer);
    const body = await textOf(req);
    const form = new URLSearchParams(body);
    const endpoint = endpointOf(url.pathname, form);
    hits.push({ endpoint, method: req.method ?? '', url: url.pathname + url.search, headers: req.headers, body });
    if (endpoint === 'authorize') return authorize(url.searchParams, res);
    const [code, answer] = await answerOf(endpoint, req, form);
    const text = answer === undefined ? '' : JSON.stringify(answer);
    const instead: Answer | undefined = isAnswered(endpoint) ? mode.answers?.[endpoint] : undefined;
    if (instead) return instead(res, { trapUrl, body: text });
    res.writeHead(code, { 'content-type': 'application/json', 'cache-control': 'no-store' }).end(text);
  }

  function endpointOf(path: string, form: URLSearchParams): Endpoint {
    if (path === (mode.discoveryPath ?? '/.well-known/openid-configuration')) return 'discovery';
    if (path === '/token') return form.get('grant_type') === 'refresh_token' ? 'refresh' : 'token';
    if (path === '/api/1/threads/current') return 'platform';
    const names = ['authorize', 'jwks', 'userinfo', 'revocation', 'end_session'] as const;
    return names.find((name) => path === `/${name}`) ?? 'other';
  }

  function authorize(asked: URLSearchParams, res: ServerResponse): void {
    if (mode.firstPending) firstPending ??= asked;
    const request = (mode.firstPending && firstPending) || asked;
    const code = randomUUID();
    mode.issued?.(code);
    const redirectUri = request.get('redirect_uri') ?? '';
    const askedBy = request.get('client_id') ?? '';
    codes.set(code, {
      clientId: askedBy,
      nonce: request.get('nonce') ?? undefined,
      challenge: request.get('code_challenge') ?? undefined,
      redirectUri,
      scope: request.get('scope') ?? '',
      person: { ...person, sub: mode.subject?.(person.sub, askedBy) ?? person.sub },
    });
    const parameters = new URLSearchParams({ code, state: request.get('state') ?? '', iss: issuer });
    mode.callback?.(parameters, scene());
    const target = new URL(redirectUri);
    target.search = parameters.toString();
    res.writeHead(302, { location: target.href }).end();
  }

  async function answerOf(
    endpoint: Endpoint,
    req: IncomingMessage,
    form: URLSearchParams,
  ): Promise<[number, unknown?]> {
    switch (endpoint) {
      case 'discovery':
        return [200, mode.metadata?.(metadata(), scene()) ?? metadata()];
      case 'jwks': {
        const keys = await publicJwks(keysNow());
        return [200, { keys: mode.jwks?.(keys) ?? keys }];
      }
      case 'token':
      case 'refresh':
        return knowsClient(req, form) ? tokens(endpoint, form) : [401, { error: 'invalid_client' }];
      case 'userinfo': {
        const whose = bearer(req);
        return whose ? [200, mode.userinfo?.({ ...whose }) ?? whose] : [401, { error: 'invalid_token' }];
      }
      case 'platform': {
        const whose = bearer(req);
        return whose ? [200, { thread: { id: 't1', title: 'Harbour plan', author: { name: whose.name } } }] : [401, {}];
      }
      case 'revocation':
        if (!knowsClient(req, form)) return [401, { error: 'invalid_client' }];
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
      if (value) mode.issued?.(value);
    }
    accessTokens.set(body.access_token, grant.person);
    refreshTokens.set(body.refresh_token, grant);
    const given = mode.tokens?.(body) ?? body;
    return [200, (endpoint === 'refresh' && mode.refreshed?.(given)) || given];
  }

  /** A code works once, for the redirect URI and the verifier that it was asked with. */
  function redeem(form: URLSearchParams): IssuedCode | undefined {
    const code = form.get('code') ?? '';
    const issued = codes.get(code);
    codes.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    return issued?.redirectUri === form.get('redirect_uri') && issued.challenge === challenge ? issued : undefined;
  }

  /** Rotating: the old one is spent. */
  function spend(form: URLSearchParams): IssuedCode | undefined {
    const token = form.get('refresh_token') ?? '';
    const grant = refreshTokens.get(token);
    refreshTokens.delete(token);
    return grant && { ...grant, nonce: undefined, challenge: undefined, redirectUri: '' };
  }

  function idToken(grant: IssuedCode): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    const { nonce } = grant;
    const proper = {
      iss: issuer,
      aud: grant.clientId,
      iat: now,
      exp: now + 300,
      auth_time: now,
      ...(nonce ? { nonce } : {}),
      ...grant.person,
    };
    const claims = mode.claims?.(proper, scene()) ?? proper;
    return mode.sign?.(claims, scene()) ?? signWith(keysNow().rs256, claims);
  }

  /** Credentials by Basic (each half decoded, the colon split once) or in the body, or a public client's id alone. */
  function knowsClient(req: IncomingMessage, form: URLSearchParams): boolean {
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

  const endpointsNow = () => ({
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    userinfo_endpoint: `${issuer}/userinfo`,
    revocation_endpoint: `${issuer}/revocation`,
    end_session_endpoint: `${issuer}/end_session`,
  });
  const metadata = (): Json => ({
    issuer,
    ...endpointsNow(),
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
    set(...modes) {
      const all = modes.map((one) => (typeof one === 'string' ? modeNamed(one) : one));
      mode = Object.assign({}, ...all, { answers: Object.assign({}, ...all.map(({ answers }) => answers)) });
      firstPending = undefined;
    },
    signInAs(next) {
      person = next as typeof person;
    },
    logoutToken({ claims: changes = {}, header: headerChanges = {}, sign } = {}) {
      const now = Math.floor(Date.now() / 1000);
      const { sub, sid } = person;
      const events = { 'http://schemas.openid.net/event/backchannel-logout': {} };
      const proper = { iss: issuer, aud: clientId, iat: now, exp: now + 120, jti: randomUUID(), events, sub, sid };
      const claims = withoutUndefined({ ...proper, ...changes });
      const header = withoutUndefined({ typ: 'logout+jwt', ...headerChanges });
      return sign?.(claims, header, scene()) ?? signWith(keysNow().rs256, claims, header);
    },
    async rotateKeys() {
      generations.push(await makeKeys(`-${generations.length}`));
    },
    reset() {
      hits.length = 0;
      trapped.length = 0;
      mode = {};
      firstPending = undefined;
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
    handSetEndpoints: () => ({
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

/** Answers are named by endpoint and kind, so that every one can be had at every endpoint. */
export function modeNamed(name: ModeName): Mode {
  if (name in MODES) return MODES[name as keyof typeof MODES];
  const endpoint = ANSWERED_ENDPOINTS.find((one) => name.startsWith(`${one}-`));
  const answer = endpoint && ANSWERS[name.slice(endpoint.length + 1) as AnswerName];
  if (!endpoint || !answer) throw new Error(`The hostile provider has no mode "${name}".`);
  return { answers: { [endpoint]: answer } };
}

function withoutUndefined(object: Json): Json {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}

function isAnswered(endpoint: Endpoint): endpoint is AnsweredEndpoint {
  return (ANSWERED_ENDPOINTS as readonly string[]).includes(endpoint);
}

async function makeKeys(suffix: string): Promise<SigningKeys> {
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
