/** The modes of the hostile provider: ways to be wrong, or odd but legal. */
import { generateKeyPairSync } from 'node:crypto';
import { CompactEncrypt, type CryptoKey, exportSPKI, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { BROKEN_RESPONSES, type BrokenResponse, status } from './broken-responses.ts';

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
export interface ModeContext {
  issuer: string;
  url: string;
  clientId: string;
  clientSecret: string;
  keys: SigningKeys;
}

/** Each member changes one behaviour. Without it, that behaviour is correct. */
export interface Mode {
  metadata?: (metadata: Json, scene: ModeContext) => Json;
  /** The pairwise `sub` of a user for a client. */
  subject?: (sub: string, clientId: string) => string;
  /** Changes the parameters of the callback. */
  callback?: (parameters: URLSearchParams, scene: ModeContext) => void;
  claims?: (claims: Json, scene: ModeContext) => Json;
  sign?: (claims: Json, scene: ModeContext) => Promise<string>;
  /** Changes every token response. */
  tokenResponse?: (body: Json) => Json;
  /** Changes only the token response to a refresh. */
  refreshResponse?: (body: Json) => Json;
  userinfo?: (claims: Json) => Json;
  jwks?: (keys: Json[]) => Json[];
  /** Called with every code and token that is issued. */
  onIssued?: (value: string) => void;
  /** Responses that replace those of the endpoints. */
  responses?: Partial<Record<ReplaceableEndpoint, BrokenResponse>>;
  /** Whether Basic credentials are decoded, as RFC 6749 section 2.3.1 requires. Default: `decoded`. */
  basic?: 'decoded' | 'raw';
  /** Responds to every authorization request as to the first one. */
  repeatsFirstRequest?: true;
  /** The path of discovery. Default: `/.well-known/openid-configuration`. */
  discoveryPath?: string;
}

export const REPLACEABLE_ENDPOINTS = ['discovery', 'token', 'refresh', 'jwks', 'userinfo', 'revocation'] as const;
export type ReplaceableEndpoint = (typeof REPLACEABLE_ENDPOINTS)[number];

const now = () => Math.floor(Date.now() / 1000);
const withoutMembers =
  (...names: string[]) =>
  (object: Json): Json =>
    Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
const withMembers = (changes: Json) => (object: Json) => ({ ...object, ...changes });
const encodeJson = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Signs validly, with these members added to the header. */
export function signWith(pair: KeyPair, claims: Json, header: Json = {}): Promise<string> {
  return new SignJWT(claims as JWTPayload)
    .setProtectedHeader({ alg: pair.alg, kid: pair.kid, ...header })
    .sign(pair.privateKey);
}

async function signWithUnknownKey(claims: Json, { keys }: ModeContext): Promise<string> {
  const unknownPair = await generateKeyPair('RS256');
  return signWith({ ...keys.rs256, ...unknownPair }, claims);
}

async function signWithPublicKey(claims: Json, { keys }: ModeContext): Promise<string> {
  const secret = new TextEncoder().encode(await exportSPKI(keys.rs256.publicKey));
  return new SignJWT(claims as JWTPayload).setProtectedHeader({ alg: 'HS256', kid: keys.rs256.kid }).sign(secret);
}

function signWithSecret(claims: Json, { clientSecret }: ModeContext): Promise<string> {
  return new SignJWT(claims as JWTPayload)
    .setProtectedHeader({ alg: 'HS256' })
    .sign(new TextEncoder().encode(clientSecret));
}

async function encrypt(claims: Json, scene: ModeContext): Promise<string> {
  const inner = await signWith(scene.keys.rs256, claims);
  return new CompactEncrypt(new TextEncoder().encode(inner))
    .setProtectedHeader({ alg: 'RSA-OAEP-256', enc: 'A256GCM' })
    .encrypt((await generateKeyPair('RSA-OAEP-256')).publicKey);
}

async function tamper(claims: Json, { keys }: ModeContext): Promise<string> {
  const [header, , signature] = (await signWith(keys.rs256, claims)).split('.');
  return `${header}.${encodeJson({ ...claims, sub: 'administrator' })}.${signature}`;
}

function newRsaKey(): Json {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...publicKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig' };
}

/** ID tokens that must never start a session (R18, R23). */
export const BAD_ID_TOKENS = {
  'id-token-wrong-iss': { claims: withMembers({ iss: 'https://elsewhere.example.com' }) },
  'id-token-iss-with-slash': { claims: (claims) => ({ ...claims, iss: `${claims.iss}/` }) },
  'id-token-no-iss': { claims: withoutMembers('iss') },
  'id-token-wrong-aud': { claims: withMembers({ aud: 'another-client' }) },
  'id-token-no-aud': { claims: withoutMembers('aud') },
  'id-token-aud-list-without-us': { claims: withMembers({ aud: ['another-client', 'third-client'] }) },
  'id-token-many-aud-no-azp': { claims: (claims) => ({ ...claims, aud: [claims.aud, 'another-client'] }) },
  'id-token-wrong-azp': { claims: (claims) => ({ ...claims, aud: [claims.aud, 'other'], azp: 'other' }) },
  'id-token-wrong-azp-beside-our-aud': { claims: withMembers({ azp: 'other' }) },
  'id-token-azp-number': { claims: withMembers({ azp: 7 }) },
  'id-token-iat-in-the-future': { claims: (claims) => ({ ...claims, iat: now() + 90, exp: now() + 300 }) },
  'id-token-typ-access-token': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { typ: 'at+jwt' }) },
  'id-token-typ-logout-token': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { typ: 'logout+jwt' }) },
  'id-token-expired': { claims: (claims) => ({ ...claims, iat: now() - 7200, exp: now() - 3600 }) },
  'id-token-no-exp': { claims: withoutMembers('exp') },
  'id-token-exp-text': { claims: (claims) => ({ ...claims, exp: String(claims.exp) }) },
  'id-token-no-iat': { claims: withoutMembers('iat') },
  'id-token-iat-text': { claims: withMembers({ iat: 'yesterday' }) },
  'id-token-not-yet': { claims: (claims) => ({ ...claims, nbf: now() + 3600 }) },
  'id-token-wrong-nonce': { claims: withMembers({ nonce: 'a-nonce-that-nobody-sent' }) },
  'id-token-no-nonce': { claims: withoutMembers('nonce') },
  'id-token-no-sub': { claims: withoutMembers('sub') },
  'id-token-empty-sub': { claims: withMembers({ sub: '' }) },
  'id-token-sub-number': { claims: withMembers({ sub: 7 }) },
  'id-token-sub-null': { claims: withMembers({ sub: null }) },
  'id-token-missing': { tokenResponse: withoutMembers('id_token') },
  'id-token-number': { tokenResponse: withMembers({ id_token: 17 }) },
  'id-token-empty': { tokenResponse: withMembers({ id_token: '' }) },
  'id-token-two-parts': { sign: async (claims) => `${encodeJson({ alg: 'RS256' })}.${encodeJson(claims)}` },
  'id-token-no-signature': {
    sign: async (claims, { keys }) => `${(await signWith(keys.rs256, claims)).replace(/[^.]+$/, '')}`,
  },
  'id-token-not-json': { sign: async () => `${encodeJson({ alg: 'RS256' })}.bm90IGpzb24.AAAA` },
  'id-token-tampered': { sign: tamper },
  'id-token-stranger-key': { sign: signWithUnknownKey },
  'id-token-alg-none': { sign: async (claims) => `${encodeJson({ alg: 'none' })}.${encodeJson(claims)}.` },
  'id-token-alg-none-advertised': {
    metadata: withMembers({ id_token_signing_alg_values_supported: ['none'] }),
    sign: async (claims) => `${encodeJson({ alg: 'none' })}.${encodeJson(claims)}.`,
  },
  'id-token-hs256-public-key': { sign: signWithPublicKey },
  'id-token-hs256-public-key-advertised': {
    metadata: withMembers({ id_token_signing_alg_values_supported: ['HS256', 'RS256'] }),
    sign: signWithPublicKey,
  },
  'id-token-hs256-client-secret-advertised': {
    metadata: withMembers({ id_token_signing_alg_values_supported: ['HS256'] }),
    sign: signWithSecret,
  },
  'id-token-unknown-kid': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { kid: 'nobody-knows' }) },
  'id-token-no-kid-of-two-keys': {
    jwks: (keys) => [newRsaKey(), ...keys],
    sign: (claims, { keys }) => signWith(keys.rs256, claims, { kid: undefined }),
  },
  'id-token-crit': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { crit: ['b64'], b64: true }) },
  'id-token-encrypted': { sign: encrypt },
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
export const ODD_TOKEN_RESPONSES = {
  'tokens-as-form': { responses: { token: BROKEN_RESPONSES.form, refresh: BROKEN_RESPONSES.form } },
  'tokens-as-text': {
    responses: { token: BROKEN_RESPONSES['form-as-text'], refresh: BROKEN_RESPONSES['form-as-text'] },
  },
  'tokens-created': { responses: { token: BROKEN_RESPONSES.created, refresh: BROKEN_RESPONSES.created } },
  'tokens-with-nulls': {
    tokenResponse: withMembers({ scope: null, expires_in: null, error: null, error_description: null }),
  },
  'scope-list': { tokenResponse: (body) => ({ ...body, scope: String(body.scope).split(' ') }) },
  'scope-with-commas': { tokenResponse: (body) => ({ ...body, scope: String(body.scope).replaceAll(' ', ',') }) },
  'token-type-missing': { tokenResponse: withoutMembers('token_type') },
  'token-type-bot': { tokenResponse: withMembers({ token_type: 'bot' }) },
  'token-type-user': { tokenResponse: withMembers({ token_type: 'User' }) },
} satisfies Record<string, Mode>;

/** The tokens of the user in a nested object, next to those of a bot. */
export const NESTED_TOKENS: Mode = {
  tokenResponse: (body) => ({
    ok: true,
    access_token: 'of-the-bot',
    token_type: 'bot',
    scope: 'commands',
    refresh_token: 'refresh-of-the-bot',
    expires_in: 5,
    authed_user: { ...body, id: 'U1', token_type: 'user' },
  }),
};

/** Odd but legal, as with some real providers: each must end in a session (R26). */
export const ODD_BUT_LEGAL = {
  ...ODD_TOKEN_RESPONSES,
  'id-token-es256': { sign: (claims, { keys }) => signWith(keys.es256, claims) },
  'id-token-eddsa': { sign: (claims, { keys }) => signWith(keys.eddsa, claims) },
  'id-token-no-kid': { sign: (claims, { keys }) => signWith(keys.es256, claims, { kid: undefined }) },
  'id-token-no-kid-rs256': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { kid: undefined }) },
  'id-token-typ-anything': { sign: (claims, { keys }) => signWith(keys.rs256, claims, { typ: 'jwt' }) },
  'id-token-auth-time-0': { claims: withMembers({ auth_time: 0 }) },
  'id-token-aud-list': { claims: (claims) => ({ ...claims, aud: [claims.aud] }) },
  'id-token-many-aud-with-azp': { claims: (claims) => ({ ...claims, aud: [claims.aud, 'other'], azp: claims.aud }) },
  'id-token-extra-claims': { claims: withMembers({ weird: { nested: [1, null] }, amr: 'pwd' }) },
  'id-token-clock-ahead': { claims: (claims) => ({ ...claims, iat: now() + 45, exp: now() + 300 }) },
  'id-token-azp': { claims: (claims) => ({ ...claims, azp: claims.aud }) },
  'id-token-clock-behind': { claims: (claims) => ({ ...claims, iat: now() - 20, exp: now() + 60 }) },
  'id-token-without-name': { claims: withoutMembers('name', 'email') },
  'token-type-mixed-case': { tokenResponse: withMembers({ token_type: 'bEaReR' }) },
  'no-scope': { tokenResponse: withoutMembers('scope') },
  'fewer-scopes': { tokenResponse: withMembers({ scope: 'openid' }) },
  'no-expires-in': { tokenResponse: withoutMembers('expires_in') },
  'expires-in-text': { tokenResponse: withMembers({ expires_in: '3600' }) },
  'no-refresh-token': { tokenResponse: withoutMembers('refresh_token') },
  'extra-fields': {
    tokenResponse: withMembers({ instance_url: 'https://tenant.example.com', ext: { a: [1] }, id: 5 }),
  },
  'expires-in-1e300': { tokenResponse: withMembers({ expires_in: 1e300 }) },
  'expires-in-negative': { tokenResponse: withMembers({ expires_in: -5 }) },
  'expires-in-0': { tokenResponse: withMembers({ expires_in: 0 }) },
  'expires-in-nan': { tokenResponse: withMembers({ expires_in: 'NaN' }) },
  'expires-in-array': { tokenResponse: withMembers({ expires_in: [3600] }) },
  'expires-in-null': { tokenResponse: withMembers({ expires_in: null }) },
  'no-code-challenge-methods': { metadata: withoutMembers('code_challenge_methods_supported') },
  'no-revocation-endpoint': { metadata: withoutMembers('revocation_endpoint') },
  'no-end-session-endpoint': { metadata: withoutMembers('end_session_endpoint') },
  'no-userinfo-endpoint': { metadata: withoutMembers('userinfo_endpoint') },
  'no-signing-algorithms': { metadata: withoutMembers('id_token_signing_alg_values_supported') },
  'null-members': { metadata: withMembers({ revocation_endpoint: null, introspection_endpoint: null }) },
  'endpoint-with-our-parameters': {
    metadata: (metadata) => ({
      ...metadata,
      authorization_endpoint: `${metadata.authorization_endpoint}?tenant=7&scope=admin&state=theirs&redirect_uri=x`,
    }),
  },
  'iss-unadvertised': {
    metadata: withoutMembers('authorization_response_iss_parameter_supported'),
    callback: (parameters, { issuer }) => parameters.set('iss', issuer),
  },
  'iss-silent': {
    metadata: withoutMembers('authorization_response_iss_parameter_supported'),
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
    metadata: withoutMembers('authorization_response_iss_parameter_supported'),
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
  'callback-access-denied': { callback: errorCallback('access_denied') },
  'callback-consent-required': { callback: errorCallback('consent_required') },
  'callback-server-error': { callback: errorCallback('server_error') },
  'callback-invalid-scope': { callback: errorCallback('invalid_scope') },
  'callback-script-error': { callback: errorCallback('<script>alert(1)</script>', '<script>alert(2)</script>') },
  'callback-error-and-code': { callback: (parameters) => parameters.set('error', 'access_denied') },
} satisfies Record<string, Mode>;

function errorCallback(error: string, description = 'no'): (parameters: URLSearchParams) => void {
  return (parameters) => {
    parameters.delete('code');
    parameters.set('error', error);
    parameters.set('error_description', description);
  };
}

/** Metadata that must prevent every request to this provider (R20). */
export const BAD_METADATA = {
  'discovery-wrong-issuer': { metadata: withMembers({ issuer: 'https://elsewhere.example.com' }) },
  'discovery-issuer-with-slash': { metadata: (metadata) => ({ ...metadata, issuer: `${metadata.issuer}/` }) },
  'discovery-issuer-in-capitals': {
    metadata: (metadata) => ({ ...metadata, issuer: String(metadata.issuer).replace('http', 'HTTP') }),
  },
  'discovery-no-issuer': { metadata: withoutMembers('issuer') },
  'discovery-http-token-endpoint': { metadata: withMembers({ token_endpoint: 'http://idp.example.com/token' }) },
  'discovery-http-jwks': { metadata: withMembers({ jwks_uri: 'http://idp.example.com/jwks' }) },
  'discovery-http-authorization': { metadata: withMembers({ authorization_endpoint: 'http://idp.example.com/a' }) },
  'discovery-script-authorization': { metadata: withMembers({ authorization_endpoint: 'javascript:alert(1)' }) },
  'discovery-private-token-endpoint': { metadata: withMembers({ token_endpoint: 'https://10.0.0.8/token' }) },
  'discovery-metadata-service': { metadata: withMembers({ jwks_uri: 'http://169.254.169.254/latest' }) },
  'discovery-token-endpoint-list': {
    metadata: (metadata) => ({ ...metadata, token_endpoint: [metadata.token_endpoint] }),
  },
  'discovery-no-token-endpoint': { metadata: withoutMembers('token_endpoint') },
  'discovery-no-authorization-endpoint': { metadata: withoutMembers('authorization_endpoint') },
} satisfies Record<string, Mode>;

const refuseRefresh = (code: number, body: unknown): Mode => ({ responses: { refresh: status(code, body) } });

/** Modes that take effect at a refresh or later. */
export const MODES_AFTER_SIGN_IN = {
  'refresh-lacks-everything': {
    refreshResponse: ({ access_token, token_type }) => ({ access_token, token_type }),
  },
  'refresh-rotates-but-breaks': { refreshResponse: withMembers({ access_token: 5 }) },
  'refresh-bad-id-token': { refreshResponse: withMembers({ id_token: 'a.b.c' }) },
  'refresh-400-empty': refuseRefresh(400, ''),
  'refresh-400-invalid-request': refuseRefresh(400, { error: 'invalid_request' }),
  'refresh-401-invalid-request': refuseRefresh(401, { error: 'invalid_request' }),
  'refresh-403-invalid-code': refuseRefresh(403, { error: 'invalid_code' }),
  'refresh-500-race': refuseRefresh(500, { error: 'invalid_grant' }),
  'userinfo-other-sub': { userinfo: withMembers({ sub: 'somebody-else' }) },
  'userinfo-no-sub': { userinfo: withoutMembers('sub') },
  'discovery-elsewhere': { discoveryPath: '/tenant/metadata/' },
  'first-pending-answered': { repeatsFirstRequest: true },
} satisfies Record<string, Mode>;

export const MODES = { ...BAD_ID_TOKENS, ...ODD_BUT_LEGAL, ...BAD_CALLBACKS, ...BAD_METADATA, ...MODES_AFTER_SIGN_IN };
