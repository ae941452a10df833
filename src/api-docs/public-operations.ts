/** Owns the description of the calls outside the administration: what each takes and answers, and who may make it. */
import { z } from 'zod';

export type Caller = 'anyone' | 'session' | 'session change' | 'relay token' | 'provider';

export interface PublicOperation {
  summary: string;
  who: Caller;
  /** Names of the query's parameters, with what each is. */
  query?: Readonly<Record<string, string>>;
  headers?: Readonly<Record<string, string>>;
  body?: z.ZodType;
  form?: z.ZodType;
  status: number;
  answer?: z.ZodType;
  mediaType?: string;
}

const connection = z.object({
  app: z.string(),
  name: z.string(),
  account: z.string().nullable(),
  health: z.enum(['active', 'expiring', 'in_doubt', 'reconnect_needed']),
  scopes: z.array(z.string()),
  cause: z.string().nullable(),
  lastUsedAt: z.iso.datetime().nullable(),
  connectUrl: z.string(),
});

const binRecord = z
  .object({
    number: z.object({ length: z.int().optional(), luhn: z.boolean().optional() }).optional(),
    scheme: z.string().optional(),
    type: z.string().optional(),
    brand: z.string().optional(),
    prepaid: z.boolean().optional(),
    country: z
      .object({
        numeric: z.string().optional(),
        alpha2: z.string().optional(),
        name: z.string().optional(),
        emoji: z.string().optional(),
        currency: z.string().optional(),
        latitude: z.number().optional(),
        longitude: z.number().optional(),
      })
      .optional(),
    bank: z
      .object({
        name: z.string().optional(),
        url: z.string().optional(),
        phone: z.string().optional(),
        city: z.string().optional(),
      })
      .optional(),
  })
  .describe('Facts that are not known are left out.');

const binBatch = z.strictObject({
  bins: z.array(z.string()).max(1000).describe('each the first 6 to 8 digits of a card'),
});

const binResults = z.object({
  results: z
    .array(
      z.union([
        z.object({
          bin: z.string(),
          record: binRecord,
          source: z.enum(['dataset', 'service', 'cache', 'rules']),
          asOf: z.string().optional(),
          digitsMatched: z.int(),
        }),
        z.object({ problem: z.object({ code: z.string() }).loose() }),
      ]),
    )
    .describe('in the order of the request'),
});

const keySet = z.object({ keys: z.array(z.object({ kty: z.string(), kid: z.string() }).loose()) });

const APP = { app: 'id of a connected app; may be left out where only one qualifies' };
const RELAYED_FOR = {
  'Gatehouse-User-Assertion': 'a JWT of GET /session/verify: for its user',
  'Gatehouse-User': 'a user id: for a relay token with assertUser',
  'Gatehouse-Service-Account': 'id of a service account',
};

/** By method and path, as in the table of routes. Pages alone are not among them. */
export const PUBLIC_OPERATIONS: Readonly<Record<string, PublicOperation>> = {
  'GET /session': {
    summary: 'Who is signed in, with the CSRF token and the connections',
    who: 'anyone',
    status: 200,
    answer: z.union([
      z.strictObject({ signedIn: z.literal(false) }),
      z.object({
        signedIn: z.literal(true),
        user: z.object({
          id: z.string(),
          issuer: z.string(),
          subject: z.string(),
          name: z.string().nullable(),
          email: z.string().nullable(),
          admin: z.boolean(),
        }),
        csrfToken: z.string(),
        expiresAt: z.iso.datetime(),
        connections: z.array(connection),
      }),
    ]),
  },
  'GET /session/verify': {
    summary: 'For a reverse proxy: 200 with a signed user assertion in Gatehouse-User-Assertion, or 401',
    who: 'session',
    query: { audience: 'for whom the assertion is' },
    status: 200,
  },
  'GET /.well-known/jwks.json': {
    summary: 'Our public keys',
    who: 'anyone',
    status: 200,
    answer: keySet,
  },
  'GET /sign-in': {
    summary: 'Begin to sign in: to the authorization endpoint, or a page to choose',
    who: 'anyone',
    query: { app: 'id of the app to sign in with', return_to: 'a local path, or one of the return URLs of the app' },
    status: 303,
  },
  'GET /oauth/callback/:app': {
    summary: 'Where the identity provider sends the browser back to',
    who: 'anyone',
    query: { code: 'of the provider', state: 'as it was sent', iss: 'of the provider', error: 'of the provider' },
    status: 303,
  },
  'POST /oauth/backchannel-logout/:app': {
    summary: 'OpenID Connect Back-Channel Logout 1.0',
    who: 'provider',
    form: z.object({ logout_token: z.string() }),
    status: 200,
  },
  'POST /sign-out': { summary: 'Sign out here and at the provider', who: 'session change', status: 303 },
  'POST /sign-out/everywhere': { summary: 'Sign out in every browser', who: 'session change', status: 303 },
  'GET /sessions': {
    summary: 'Where the user is signed in',
    who: 'session',
    status: 200,
    answer: z.object({
      sessions: z.array(
        z
          .object({
            id: z.string(),
            browser: z.string().nullable(),
            startedAt: z.iso.datetime(),
            lastSeenAt: z.iso.datetime(),
            current: z.boolean(),
          })
          .loose(),
      ),
    }),
  },
  'POST /sessions/:id/end': {
    summary: 'End one of the user’s own sessions',
    who: 'session change',
    status: 200,
    answer: z.object({ id: z.string(), ended: z.boolean() }),
  },
  'GET /connections': {
    summary: 'The connections of the user',
    who: 'session',
    status: 200,
    answer: z.object({ connections: z.array(connection) }),
  },
  'POST /connections/:app': {
    summary: 'Ask the user for consent: to the authorization endpoint',
    who: 'session change',
    form: z.object({
      scope: z.string().optional().describe('registered scopes, with spaces between them'),
      return_to: z.string().optional(),
    }),
    status: 303,
  },
  'POST /connections/:app/disconnect': {
    summary: 'Revoke the connection at the provider and delete it here',
    who: 'session change',
    status: 200,
    answer: z.object({ app: z.string(), disconnected: z.boolean(), revocation: z.string().nullable() }).loose(),
  },
  'POST /account/delete': {
    summary: 'Delete all that is kept about the user; connections are revoked first',
    who: 'session change',
    status: 200,
    answer: z.looseObject({ deleted: z.boolean(), connections: z.array(z.unknown()) }),
  },
  'GET /threads/current': {
    summary: 'The current thread of the user, as the platform answers it',
    who: 'session',
    query: APP,
    status: 200,
    mediaType: '*/*',
  },
  'GET /bin/:bin': { summary: 'What is known of a BIN', who: 'session', status: 200, answer: binRecord },
  'POST /bin': {
    summary: 'What is known of up to 1,000 BINs',
    who: 'session change',
    body: binBatch,
    status: 200,
    answer: binResults,
  },
  'GET /relay/threads/current': {
    summary: 'The current thread of a user or a service account; the token needs threads:read',
    who: 'relay token',
    query: APP,
    headers: RELAYED_FOR,
    status: 200,
    mediaType: '*/*',
  },
  'GET /relay/bin/:bin': {
    summary: 'What is known of a BIN; the token needs bin:read',
    who: 'relay token',
    status: 200,
    answer: binRecord,
  },
  'POST /relay/bin': {
    summary: 'What is known of up to 1,000 BINs; the token needs bin:read',
    who: 'relay token',
    body: binBatch,
    status: 200,
    answer: binResults,
  },
  'POST /relay/token': {
    summary: 'Exchange for an access token of a user (RFC 8693); the token needs token:exchange',
    who: 'relay token',
    form: z.object({
      grant_type: z.literal('urn:ietf:params:oauth:grant-type:token-exchange'),
      subject_token: z.string(),
      subject_token_type: z.enum([
        'urn:ietf:params:oauth:token-type:jwt',
        'urn:ietf:params:oauth:token-type:id_token',
        'urn:gatehouse:token-type:user',
      ]),
      audience: z.string().describe('id of a connected app'),
      scope: z.string().optional(),
    }),
    status: 200,
    answer: z
      .object({
        access_token: z.string(),
        issued_token_type: z.string(),
        token_type: z.string(),
        expires_in: z.int().optional(),
        scope: z.string().optional(),
      })
      .loose(),
  },
  'GET /openapi.json': {
    summary: 'This description',
    who: 'anyone',
    status: 200,
    answer: z.looseObject({ openapi: z.string() }),
  },
};
