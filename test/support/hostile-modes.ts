/** The modes of the hostile provider: ways to be wrong, or odd but legal. */
import { generateKeyPairSync } from 'node:crypto';
import { CompactEncrypt, type CryptoKey, exportSPKI, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { ANSWERS, type Answer, status } from './hostile-answers.ts';

type Json = Record<string, unknown>;

export interface SigningKeys {
  rs256: KeyPair;
  es256: KeyPair;
  eddsa: KeyPair;
}

export interface KeyPair {
  alg: string;
  kid: string;
  publicKey: CryptoKey;
  privateKey: CryptoKey;
}

/** The data that a mode can use. */
export interface Scene {
  issuer: string;
  url: string;
  clientId: string;
  clientSecret: string;
  keys: SigningKeys;
}

/** Each member changes one behaviour. Without it, that behaviour is correct. */
export interface Mode {
  metadata?: (metadata: Json, scene: Scene) => Json;
  /** The pairwise `sub` of a user for a client. */
  subject?: (sub: string, clientId: string) => string;
  /** Changes the parameters of the callback. */
  callback?: (parameters: URLSearchParams, scene: Scene) => void;
  claims?: (claims: Json, scene: Scene) => Json;
  sign?: (claims: Json, scene: Scene) => Promise<string>;
  /** Changes every token response. */
  tokens?: (body: Json) => Json;
  /** Changes only the token response to a refresh. */
  refreshed?: (body: Json) => Json;
  userinfo?: (claims: Json) => Json;
  jwks?: (keys: Json[]) => Json[];
  /** Called with every code and token that is issued. */
  issued?: (value: string) => void;
  /** Responses that replace those of the endpoints. */
  answers?: Partial<Record<AnsweredEndpoint, Answer>>;
  /** Whether Basic credentials are decoded, as RFC 6749 section 2.3.1 requires. Default: `decoded`. */
  basic?: 'decoded' | 'raw';
  /** Responds to every authorization request as to the first one. */
  firstPending?: true;
  /** The path of discovery. Default: `/.well-known/openid-configuration`. */
  discoveryPath?: string;
}

export const ANSWERED_ENDPOINTS = ['discovery', 'token', 'refresh', 'jwks', 'userinfo', 'revocation'] as const;
export type AnsweredEndpoint = (typeof ANSWERED_ENDPOINTS)[number];

const now = () => Math.floor(Date.now() / 1000);
const without =
  (...names: string[]) =>
  (object: Json): Json =>
    Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
const withThese = (changes: Json) => (object: Json) => ({ ...object, ...changes });
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Signs validly, with these members added to the header. */
export function signWith(pair: KeyPair, claims: Json, header: Json = {}): Promise<string> {
  return new SignJWT(claims as JWTPayload)
    .setProtectedHeader({ alg: pair.alg, kid: pair.kid, ...header })
    .sign(pair.privateKey);
}

async function signsWithUnknownKey(claims: Json, { keys }: Scene): Promise<string> {
  const unknownPair = await generateKeyPair('RS256');
  return signWith({ ...keys.rs256, ...unknownPair }, claims);
}

async function signsWithPublicKey(claims: Json, { keys }: Scene): Promise<string> {
  const secret = new TextEncoder().encode(await exportSPKI(keys.rs256.publicKey));
  return new SignJWT(claims as JWTPayload).setProtectedHeader({ alg: 'HS256', kid: keys.rs256.kid }).sign(secret);
}

function signsWithSecret(claims: Json, { clientSecret }: Scene): Promise<string> {
  return new SignJWT(claims as JWTPayload)
    .setProtectedHeader({ alg: 'HS256' })
    .sign(new TextEncoder().encode(clientSecret));
}

async function encrypts(claims: Json, scene: Scene): Promise<string> {
  const inner = await signWith(scene.keys.rs256, claims);
  return new CompactEncrypt(new TextEncoder().encode(inner))
    .setProtectedHeader({ alg: 'RSA-OAEP-256', enc: 'A256GCM' })
    .encrypt((await generateKeyPair('RSA-OAEP-256')).publicKey);
}

async function tampers(claims: Json, { keys }: Scene): Promise<string> {
  const [header, , signature] = (await signWith(keys.rs256, claims)).split('.');
  return `${header}.${encode({ ...claims, sub: 'administrator' })}.${signature}`;
}

function anotherRsaKey(): Json {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...publicKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig' };
}

/** ID tokens that must never start a session (R18, R23). */
export const BAD_ID_TOKENS = {
  'id-token-wrong-iss': { claims: withThese({ iss: 'https://elsewhere.example.com' }) },
  'id-token-iss-with-slash': { claims: (claims) => ({ ...claims, iss: `${claims.iss}/` }) },
  'id-token-no-iss': { claims: without('iss') },
  'id-token-wrong-aud': { claims: withThese({ aud: 'another-client' }) },
  'id-token-no-aud': { claims: without('aud') },
  'id-token-aud-list-without-us': { claims: withThese({ aud: ['another-client', 'third-client'] }) },
  'id-token-many-aud-no-azp': { claims: (claims) => ({ ...claims, aud: [claims.aud, 'another-client'] }) },
  'id-token-wrong-azp': { claims: (claims) => ({ ...claims, aud: [claims.aud, 'other'], azp: 'other' }) },
  'id-token-wrong-azp-beside-our-aud': { claims: withThese({ azp: 'other' }) },
  'id-token-azp-number': { claims: withThese({ azp: 7 }) },
  'id-token-iat-in-the-future': { claims: (claims) => ({ ...claims, iat: now() + 90, exp: now() + 300 }) },
  'id-token-typ-access-token': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { typ: 'at+jwt' }) },
  'id-token-typ-logout-token': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { typ: 'logout+jwt' }) },
  'id-token-expired': { claims: (claims) => ({ ...claims, iat: now() - 7200, exp: now() - 3600 }) },
  'id-token-no-exp': { claims: without('exp') },
  'id-token-exp-text': { claims: (claims) => ({ ...claims, exp: String(claims.exp) }) },
  'id-token-no-iat': { claims: without('iat') },
  'id-token-iat-text': { claims: withThese({ iat: 'yesterday' }) },
  'id-token-not-yet': { claims: (claims) => ({ ...claims, nbf: now() + 3600 }) },
  'id-token-wrong-nonce': { claims: withThese({ nonce: 'a-nonce-that-nobody-sent' }) },
  'id-token-no-nonce': { claims: without('nonce') },
  'id-token-no-sub': { claims: without('sub') },
  'id-token-empty-sub': { claims: withThese({ sub: '' }) },
  'id-token-sub-number': { claims: withThese({ sub: 7 }) },
  'id-token-sub-null': { claims: withThese({ sub: null }) },
  'id-token-missing': { tokens: without('id_token') },
  'id-token-number': { tokens: withThese({ id_token: 17 }) },
  'id-token-empty': { tokens: withThese({ id_token: '' }) },
  'id-token-two-parts': { sign: async (claims) => `${encode({ alg: 'RS256' })}.${encode(claims)}` },
  'id-token-no-signature': {
    sign: async (claims, { keys }) => `${(await signWith(keys.rs256, claims)).replace(/[^.]+$/, '')}`,
  },
  'id-token-not-json': { sign: async () => `${encode({ alg: 'RS256' })}.bm90IGpzb24.AAAA` },
  'id-token-tampered': { sign: tampers },
  'id-token-stranger-key': { sign: signsWithUnknownKey },
  'id-token-alg-none': { sign: async (claims) => `${encode({ alg: 'none' })}.${encode(claims)}.` },
  'id-token-alg-none-advertised': {
    metadata: withThese({ id_token_signing_alg_values_supported: ['none'] }),
    sign: async (claims) => `${encode({ alg: 'none' })}.${encode(claims)}.`,
  },
  'id-token-hs256-public-key': { sign: signsWithPublicKey },
  'id-token-hs256-public-key-advertised': {
    metadata: withThese({ id_token_signing_alg_values_supported: ['HS256', 'RS256'] }),
    sign: signsWithPublicKey,
  },
  'id-token-hs256-client-secret-advertised': {
    metadata: withThese({ id_token_signing_alg_values_supported: ['HS256'] }),
    sign: signsWithSecret,
  },
  'id-token-unknown-kid': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { kid: 'nobody-knows' }) },
  'id-token-no-kid-of-two-keys': {
    jwks: (keys) => [anotherRsaKey(), ...keys],
    sign: (claims, { keys }) => signWith(keys.rs256, claims, { kid: undefined }),
  },
  'id-token-crit': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { crit: ['b64'], b64: true }) },
  'id-token-encrypted': { sign: encrypts },
  'id-token-embedded-key': {
    sign: async (claims, { keys }) => {
      const unknownPair = await generateKeyPair('RS256', { extractable: true });
      const jwk = await crypto.subtle.exportKey('jwk', unknownPair.publicKey);
      return signWith({ ...keys.rs256, ...unknownPair }, claims, { jwk });
    },
  },
  'jwks-without-our-key': { jwks: (keys) => keys.filter(({ kid }) => kid !== 'rs') },
  'jwks-empty': { jwks: () => [] },
} satisfies Record<string, Mode>;

/** Token responses of real providers that differ from RFC 6749 section 5.1. Each must be accepted. */
export const ODDLY_WRITTEN = {
  'tokens-as-form': { answers: { token: ANSWERS.form, refresh: ANSWERS.form } },
  'tokens-as-text': { answers: { token: ANSWERS['form-as-text'], refresh: ANSWERS['form-as-text'] } },
  'tokens-created': { answers: { token: ANSWERS.created, refresh: ANSWERS.created } },
  'tokens-with-nulls': { tokens: withThese({ scope: null, expires_in: null, error: null, error_description: null }) },
  'scope-list': { tokens: (body) => ({ ...body, scope: String(body.scope).split(' ') }) },
  'scope-with-commas': { tokens: (body) => ({ ...body, scope: String(body.scope).replaceAll(' ', ',') }) },
  'token-type-missing': { tokens: without('token_type') },
  'token-type-bot': { tokens: withThese({ token_type: 'bot' }) },
  'token-type-user': { tokens: withThese({ token_type: 'User' }) },
} satisfies Record<string, Mode>;

/** The tokens of the user in a nested object, next to those of a bot. */
export const NESTED_TOKENS: Mode = {
  tokens: (body) => ({
    ...{
      ok: true,
      access_token: 'of-the-bot',
      token_type: 'bot',
      scope: 'commands',
      refresh_token: 'refresh-of-the-bot',
    },
    ...{ expires_in: 5, authed_user: { ...body, id: 'U1', token_type: 'user' } },
  }),
};

/** Odd but legal, as with some real providers: each must end in a session (R26). */
export const ODD_BUT_LEGAL = {
  ...ODDLY_WRITTEN,
  'id-token-es256': { sign: (claims, { keys }) => signWith(keys.es256, claims) },
  'id-token-eddsa': { sign: (claims, { keys }) => signWith(keys.eddsa, claims) },
  'id-token-no-kid': { sign: (claims, { keys }) => signWith(keys.es256, claims, { kid: undefined }) },
  'id-token-no-kid-rs256': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { kid: undefined }) },
  'id-token-typ-anything': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { typ: 'jwt' }) },
  'id-token-auth-time-0': { claims: withThese({ auth_time: 0 }) },
  'id-token-aud-list': { claims: (claims) => ({ ...claims, aud: [claims.aud] }) },
  'id-token-many-aud-with-azp': { claims: (claims) => ({ ...claims, aud: [claims.aud, 'other'], azp: claims.aud }) },
  'id-token-extra-claims': { claims: withThese({ weird: { nested: [1, null] }, amr: 'pwd' }) },
  'id-token-clock-ahead': { claims: (claims) => ({ ...claims, iat: now() + 45, exp: now() + 300 }) },
  'id-token-azp': { claims: (claims) => ({ ...claims, azp: claims.aud }) },
  'id-token-clock-behind': { claims: (claims) => ({ ...claims, iat: now() - 20, exp: now() + 60 }) },
  'id-token-without-name': { claims: without('name', 'email') },
  'token-type-mixed-case': { tokens: withThese({ token_type: 'bEaReR' }) },
  'no-scope': { tokens: without('scope') },
  'fewer-scopes': { tokens: withThese({ scope: 'openid' }) },
  'no-expires-in': { tokens: without('expires_in') },
  'expires-in-text': { tokens: withThese({ expires_in: '3600' }) },
  'no-refresh-token': { tokens: without('refresh_token') },
  'extra-fields': { tokens: withThese({ instance_url: 'https://tenant.example.com', ext: { a: [1] }, id: 5 }) },
  'expires-in-1e300': { tokens: withThese({ expires_in: 1e300 }) },
  'expires-in-negative': { tokens: withThese({ expires_in: -5 }) },
  'expires-in-0': { tokens: withThese({ expires_in: 0 }) },
  'expires-in-nan': { tokens: withThese({ expires_in: 'NaN' }) },
  'expires-in-array': { tokens: withThese({ expires_in: [3600] }) },
  'expires-in-null': { tokens: withThese({ expires_in: null }) },
  'no-code-challenge-methods': { metadata: without('code_challenge_methods_supported') },
  'no-revocation-endpoint': { metadata: without('revocation_endpoint') },
  'no-end-session-endpoint': { metadata: without('end_session_endpoint') },
  'no-userinfo-endpoint': { metadata: without('userinfo_endpoint') },
  'no-signing-algorithms': { metadata: without('id_token_signing_alg_values_supported') },
  'null-members': { metadata: withThese({ revocation_endpoint: null, introspection_endpoint: null }) },
  'endpoint-with-our-parameters': {
    metadata: (metadata) => ({
      ...metadata,
      authorization_endpoint: `${metadata.authorization_endpoint}?tenant=7&scope=admin&state=theirs&redirect_uri=x`,
    }),
  },
  'iss-unadvertised': {
    metadata: without('authorization_response_iss_parameter_supported'),
    callback: (parameters, { issuer }) => parameters.set('iss', issuer),
  },
  'iss-silent': {
    metadata: without('authorization_response_iss_parameter_supported'),
    callback: (parameters) => parameters.delete('iss'),
  },
  'callback-extra-parameters': { callback: (parameters) => parameters.set('session_state', 'abc.def') },
  'basic-not-decoded': { basic: 'raw' },
  'jwks-with-strange-keys': { jwks: (keys) => [{ kty: 'AKP', alg: 'ML-DSA-44' }, { kty: 'oct', k: 'AAAA' }, ...keys] },
  'jwks-with-null': { jwks: (keys) => [null as never, ...keys] },
} satisfies Record<string, Mode>;

/** Callbacks that must be refused before a code is sent to the token endpoint. */
export const BAD_CALLBACKS = {
  'callback-iss-missing': { callback: (parameters) => parameters.delete('iss') },
  'callback-iss-wrong': { callback: (parameters) => parameters.set('iss', 'https://elsewhere.example.com') },
  'callback-iss-with-slash': { callback: (parameters, { issuer }) => parameters.set('iss', `${issuer}/`) },
  'callback-iss-wrong-unadvertised': {
    metadata: without('authorization_response_iss_parameter_supported'),
    callback: (parameters) => parameters.set('iss', 'https://elsewhere.example.com'),
  },
  'callback-state-changed': { callback: (parameters) => parameters.set('state', 'something-else') },
  'callback-state-missing': { callback: (parameters) => parameters.delete('state') },
  'callback-code-missing': { callback: (parameters) => parameters.delete('code') },
  'callback-code-twice': { callback: (parameters) => parameters.append('code', 'another') },
  'callback-state-twice': { callback: (parameters) => parameters.append('state', parameters.get('state') ?? '') },
  'callback-iss-twice': { callback: (parameters) => parameters.append('iss', parameters.get('iss') ?? '') },
  'callback-error-twice': {
    callback: (parameters) => {
      parameters.append('error', 'access_denied');
      parameters.append('error', 'server_error');
    },
  },
  'callback-implicit-token': {
    callback: (parameters) => {
      parameters.delete('code');
      parameters.set('access_token', 'implicit');
      parameters.set('token_type', 'bearer');
    },
  },
  'callback-hybrid-id-token': { callback: (parameters) => parameters.set('id_token', 'a.b.c') },
  'callback-access-denied': { callback: errorAnswer('access_denied') },
  'callback-consent-required': { callback: errorAnswer('consent_required') },
  'callback-server-error': { callback: errorAnswer('server_error') },
  'callback-invalid-scope': { callback: errorAnswer('invalid_scope') },
  'callback-script-error': { callback: errorAnswer('<script>alert(1)</script>', '<script>alert(2)</script>') },
  'callback-error-and-code': { callback: (parameters) => parameters.set('error', 'access_denied') },
} satisfies Record<string, Mode>;

function errorAnswer(error: string, description = 'no'): (parameters: URLSearchParams) => void {
  return (parameters) => {
    parameters.delete('code');
    parameters.set('error', error);
    parameters.set('error_description', description);
  };
}

/** Metadata that must prevent every request to this provider (R20). */
export const BAD_METADATA = {
  'discovery-wrong-issuer': { metadata: withThese({ issuer: 'https://elsewhere.example.com' }) },
  'discovery-issuer-with-slash': { metadata: (metadata) => ({ ...metadata, issuer: `${metadata.issuer}/` }) },
  'discovery-issuer-in-capitals': {
    metadata: (metadata) => ({ ...metadata, issuer: String(metadata.issuer).replace('http', 'HTTP') }),
  },
  'discovery-no-issuer': { metadata: without('issuer') },
  'discovery-http-token-endpoint': { metadata: withThese({ token_endpoint: 'http://idp.example.com/token' }) },
  'discovery-http-jwks': { metadata: withThese({ jwks_uri: 'http://idp.example.com/jwks' }) },
  'discovery-http-authorization': { metadata: withThese({ authorization_endpoint: 'http://idp.example.com/a' }) },
  'discovery-script-authorization': { metadata: withThese({ authorization_endpoint: 'javascript:alert(1)' }) },
  'discovery-private-token-endpoint': { metadata: withThese({ token_endpoint: 'https://10.0.0.8/token' }) },
  'discovery-metadata-service': { metadata: withThese({ jwks_uri: 'http://169.254.169.254/latest' }) },
  'discovery-token-endpoint-list': {
    metadata: (metadata) => ({ ...metadata, token_endpoint: [metadata.token_endpoint] }),
  },
  'discovery-no-token-endpoint': { metadata: without('token_endpoint') },
  'discovery-no-authorization-endpoint': { metadata: without('authorization_endpoint') },
} satisfies Record<string, Mode>;

const refuses = (code: number, body: unknown): Mode => ({ answers: { refresh: status(code, body) } });

/** Modes that take effect at a refresh or later. */
export const LATER = {
  'refresh-lacks-everything': {
    refreshed: ({ access_token, token_type }) => ({ access_token, token_type }),
  },
  'refresh-rotates-but-breaks': { refreshed: withThese({ access_token: 5 }) },
  'refresh-bad-id-token': { refreshed: withThese({ id_token: 'a.b.c' }) },
  'refresh-400-empty': refuses(400, ''),
  'refresh-400-invalid-request': refuses(400, { error: 'invalid_request' }),
  'refresh-401-invalid-request': refuses(401, { error: 'invalid_request' }),
  'refresh-403-invalid-code': refuses(403, { error: 'invalid_code' }),
  'refresh-500-race': refuses(500, { error: 'invalid_grant' }),
  'userinfo-other-sub': { userinfo: withThese({ sub: 'somebody-else' }) },
  'userinfo-no-sub': { userinfo: without('sub') },
  'discovery-elsewhere': { discoveryPath: '/tenant/metadata/' },
  'first-pending-answered': { firstPending: true },
} satisfies Record<string, Mode>;

export const MODES = { ...BAD_ID_TOKENS, ...ODD_BUT_LEGAL, ...BAD_CALLBACKS, ...BAD_METADATA, ...LATER };
