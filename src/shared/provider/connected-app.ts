/** The schema of a connected app's registration with defaults, and values derived from it. */
import { z } from 'zod';
import { appRoutesSchema, scopeToken } from './app-routes.ts';
import { checkCallbackUrl, checkCallbackUrls } from './callback-url.ts';
import { resources } from './resources.ts';
import { uriAdvice } from './url-spelling.ts';

/** Parameters of authorization and token requests that only Gatehouse sets (R3). */
export const PROTOCOL_PARAMETERS = new Set(
  (
    'client_id client_secret client_assertion client_assertion_type redirect_uri response_type response_mode scope state ' +
    'nonce code code_challenge code_challenge_method code_verifier refresh_token request request_uri registration claims ' +
    'prompt max_age acr_values id_token_hint grant_type dpop_jkt iss'
  ).split(' '),
);

/** @param missing the message for an empty field */
const text = (max: number, missing?: string) => z.string().min(1, missing).max(max);
const absoluteUrlOr = (missing?: string) =>
  text(2000, missing).superRefine((value, context) => {
    const isAbsolute = /^https?:\/\/[^\s\\#@]+$/i.test(value) && URL.canParse(value);
    const message = isAbsolute
      ? uriAdvice(value)
      : 'Enter an absolute URL without user name or fragment, beginning with https://.';
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  });
const absoluteUrl = absoluteUrlOr().meta({ format: 'uri' });

const callbackUrls = z
  .array(text(2000))
  .min(1)
  .max(50)
  .superRefine((urls, context) => {
    for (const { position, rule, detail } of checkCallbackUrls(urls)) {
      context.addIssue({ code: 'custom', path: [position], message: detail, params: { rule } });
    }
  });

const returnUrl = text(2000).superRefine((url, context) => {
  const fault = checkCallbackUrl(url);
  if (fault) context.addIssue({ code: 'custom', message: fault.detail, params: { rule: fault.rule } });
});

const signIn = z.strictObject({
  allow: z.union(
    [z.literal('everyone'), z.strictObject({ claim: text(200), values: z.array(text(200)).min(1).max(200) })],
    { error: 'Enter "everyone", or {"claim": "NAME", "values": ["VALUE"]} with the values that may sign in.' },
  ),
});

const endpoint = (title: string, description?: string) => absoluteUrl.optional().meta({ title, description });
const endpoints = z.strictObject({
  authorization: endpoint('Authorization endpoint'),
  token: endpoint('Token endpoint'),
  revocation: endpoint('Revocation endpoint'),
  introspection: endpoint('Introspection endpoint'),
  userinfo: endpoint('Userinfo endpoint'),
  endSession: endpoint('End-session endpoint', 'Used, with its query, in place of the one that discovery names.'),
  jwks: endpoint('Signing keys (JWKS)'),
});

const parameters = z
  .record(z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/), z.string().max(500))
  .superRefine((entries, context) => {
    for (const name of Object.keys(entries)) {
      if (!PROTOCOL_PARAMETERS.has(name.toLowerCase())) continue;
      context.addIssue({
        code: 'custom',
        path: [name],
        message:
          name.toLowerCase() === 'prompt'
            ? '"prompt" has its own field: set prompt instead.'
            : `"${name}" is a protocol parameter and cannot be set.`,
      });
    }
  });

const account = z.strictObject({
  field: text(200).meta({
    title: 'Member with the account’s id',
    description:
      'For an app without ID tokens: the path of the account’s id in the response of this URL, such as id or data.user.id.',
  }),
  url: absoluteUrl.optional().meta({
    title: 'URL of the account',
    description: 'Called with the access token when a user connects. Empty: the userinfo endpoint.',
  }),
});

const PROMPT_ADVICE = 'Enter values such as "consent", "login" and "select_account", or "off" to send none.';
/** OpenID Connect Core section 3.1.2.1. With `none` no user could sign in or consent. */
const promptValue = z.string().regex(/^(?!none$)[a-z_]{1,40}$/, PROMPT_ADVICE);
const prompt = z.union([z.literal('off'), z.array(promptValue).min(1).max(5)], { error: PROMPT_ADVICE });

export const apiBaseUrlSchema = absoluteUrl.refine((value) => !value.includes('?'), {
  message: 'An API base URL has no query.',
});

/** Members of token responses in which providers name the API's base URL for the user. */
const API_URL_MEMBERS = [
  ...(['instance_url', 'api_instance_url', 'rest_instance_url'] as const),
  ...(['api_url', 'api_domain', 'geolocation'] as const),
] as const;

/**
 * A host name; with a leading dot, every name below it. The last label begins with a letter, which excludes IP
 * addresses.
 */
const apiHost = z
  .string()
  .max(260)
  .regex(
    /^(\.([a-z0-9-]{1,63}\.)+|([a-z0-9-]{1,63}\.)*)[a-z][a-z0-9-]{0,62}(:[1-9]\d{0,4})?$/,
    'Enter a host in lower case such as api.example.com, or .example.com for every name below it, with a port if it is not 443.',
  );

const apiBaseUrlFrom = z.strictObject({
  member: z.enum(API_URL_MEMBERS).meta({
    title: 'Member of token responses with the API base URL',
    description: 'Only if the provider names one for each user.',
  }),
  hosts: z.array(apiHost, 'Enter the hosts that this member may name.').min(1).max(20).meta({
    title: 'Hosts that this member may name',
    description: 'Such as api.example.com, or .example.com for every name below it.',
  }),
});

/** The rate limits of the platform, needed only if its responses do not state them. */
const callsPerMinute = (title: string, max: number) =>
  z
    .int()
    .min(1)
    .max(max)
    .optional()
    .meta({ title, description: 'Needed only if the responses of the platform do not state it.' });
const rateLimit = z.strictObject({
  perUserPerMinute: callsPerMinute('Calls a minute that the platform allows each user', 1_000_000),
  perAppPerMinute: callsPerMinute('Calls a minute that the platform allows the whole app', 10_000_000),
});

export const TOKEN_ENDPOINT_AUTH_METHODS = [
  'client_secret_basic',
  'client_secret_post',
  'private_key_jwt',
  'none',
] as const;

/** Whether a protection beyond the plain code flow is used; `auto` leaves it to the provider's metadata. */
const protection = z.enum(['auto', 'required', 'off']).default('auto');

/**
 * An entry of `CONNECTED_APPS_FILE` without `clientSecret`, which in the file says where the secret is stored. The
 * admin form draws each field that has a title; the other fields are in its template and in
 * `gatehouse/admin/connected-apps/form.ts`. A field that is in neither is lost when the form is saved.
 */
export const connectedAppSchema = z.strictObject({
  id: z.string().regex(/^[a-z0-9-]{1,40}$/, 'An id is 1 to 40 of a-z, 0-9 and "-".'),
  name: text(100, 'Enter a name.'),
  issuer: absoluteUrlOr('Enter the issuer: the whole address, beginning with https://.')
    .refine((value) => !value.includes('?'), { message: 'An issuer has no query (RFC 8414 section 2).' })
    .refine((value) => !/[{}]/.test(value.replace(/(?<=[^/])\/\{tenantid\}(?=\/|$)/, '')), {
      message: 'The only part in braces that an issuer can have is {tenantid}, once, as a whole segment of the path.',
    }),
  discoveryUrl: absoluteUrl.optional(),
  clientId: text(500, 'Enter the client ID.'),
  tokenEndpointAuthMethod: z.enum(TOKEN_ENDPOINT_AUTH_METHODS).default('client_secret_basic'),
  scopes: z.array(scopeToken).max(100),
  callbackUrls,
  endpoints: endpoints.optional(),
  apiBaseUrl: apiBaseUrlSchema.optional(),
  apiBaseUrlFrom: apiBaseUrlFrom.optional(),
  threadPath: z
    .string()
    .regex(/^(\/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)+$/, 'A path begins with "/" and has no "..", query or escapes.')
    .default('/1/threads/current'),
  routes: appRoutesSchema,
  signIn: signIn.optional(),
  returnUrls: z.array(returnUrl).max(50).default([]).meta({
    title: 'Return URLs',
    description: 'Where users may be sent after signing in, in addition to pages of this service.',
  }),
  parameters: parameters.optional().meta({
    title: 'Extra authorization parameters',
    description: 'Protocol parameters are not allowed.',
  }),
  resources,
  account: account.optional(),
  prompt: prompt.optional().meta({
    title: 'Prompt',
    description:
      'What the provider asks each time: space-separated values such as consent or select_account, or off for none. Empty: consent, if a refresh token depends on it.',
  }),
  tokenParameters: parameters.optional().meta({
    title: 'Extra token parameters',
    description:
      'Sent to the token endpoint with each code and each refresh token. Protocol parameters are not allowed.',
  }),
  tokenPath: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,4}$/, 'Enter member names joined by dots.')
    .optional()
    .meta({
      title: 'Path of nested tokens',
      description: 'Only if token responses have the tokens in a nested object, such as authed_user.',
    }),
  accessTokenLifetimeSeconds: z.int().min(1).max(31_536_000).optional().meta({
    title: 'Seconds that an access token lasts',
    description: 'Only if the provider does not state it.',
  }),
  refresh: z.enum(['rotating', 'reusable']).optional().meta({ title: 'Refresh tokens' }),
  endsEarlierTokens: z.boolean().default(false).meta({
    title: 'A refresh ends earlier access tokens',
    description: 'Only if the provider says so. Services then get a token with fewer scopes at most every 30 seconds.',
  }),
  par: protection.meta({
    title: 'Pushed authorization requests (PAR)',
    description:
      'Gatehouse sends the request to the provider directly, so no browser can read or change it. If required, the app does not work with a provider that does not support it.',
  }),
  dpop: protection.meta({
    title: 'Tokens bound to a key (DPoP)',
    description: 'A stolen access token cannot be used without the key. If required, other tokens are refused.',
  }),
  rateLimit: rateLimit.optional(),
  providerSignOut: z.boolean().default(true).meta({ title: 'Signing out here also signs out at the provider' }),
  disabled: z.boolean().default(false),
});

export type ConnectedAppRegistration = z.output<typeof connectedAppSchema>;

/** A connected app with its secret. Frozen; a change creates a new object. */
export interface ConnectedApp extends Readonly<ConnectedAppRegistration> {
  readonly clientSecret: string | undefined;
}

/** The `redirect_uri` that is always sent for this app. */
export function callbackUrlOf(appId: string, publicUrl: string): string {
  return `${publicUrl}/oauth/callback/${appId}`;
}

/** The URLs to register at the provider of an app. */
export function providerUrls(appId: string, publicUrl: string) {
  return {
    callback: callbackUrlOf(appId, publicUrl),
    postLogout: `${publicUrl}/`,
    backchannelLogout: `${publicUrl}/oauth/backchannel-logout/${appId}`,
    /** Our public keys, for `private_key_jwt`. */
    jwks: `${publicUrl}/.well-known/jwks.json`,
  };
}

/**
 * False if the app is disabled or its `callbackUrls` lack the URL that is always sent. No requests are sent for it
 * then.
 */
export function isUsable(app: ConnectedApp, publicUrl: string): boolean {
  return !app.disabled && app.callbackUrls.includes(callbackUrlOf(app.id, publicUrl));
}

/** Warnings for enabled apps whose `callbackUrls` lack the URL that is always sent. */
export const callbackWarnings = (apps: readonly ConnectedApp[], publicUrl: string): string[] =>
  apps
    .filter((app) => !app.disabled && !isUsable(app, publicUrl))
    .map((app) => `no user can use the app "${app.id}" here: ${callbackAdvice(app, publicUrl)}.`);

/** What to do about an app whose `callbackUrls` lack the URL that is always sent. */
export const callbackAdvice = ({ id }: ConnectedApp, publicUrl: string): string =>
  `add ${callbackUrlOf(id, publicUrl)} to its callbackUrls`;

/** True if the app uses OpenID Connect, so an ID token is expected. */
export function isOpenIdApp(app: ConnectedApp): boolean {
  return app.scopes.includes('openid');
}

/** The host of the provider for the log: that of the configured token endpoint, or else of the issuer. */
export function providerHostOf({ endpoints, issuer }: Pick<ConnectedApp, 'endpoints' | 'issuer'>): string | undefined {
  return URL.parse(endpoints?.token ?? issuer)?.host;
}

/** The origin of the token endpoint that the app names, or of its issuer. */
export function tokenOriginOf({ endpoints, issuer }: Pick<ConnectedApp, 'endpoints' | 'issuer'>): string {
  return URL.parse(endpoints?.token ?? issuer)?.origin ?? issuer;
}
