/** The form of a connected app, and the registration that it makes, which `connectedAppSchema` then checks. */
import { z } from 'zod';
import { type ConnectedAppRegistration, TOKEN_ENDPOINT_AUTH_METHODS } from '../../connected-apps/connected-app.ts';
import { entriesOf, type FormValues, lines, recordVersion, rows, ticked } from '../../pages/form.ts';

const ENDPOINTS = ['authorization', 'token', 'revocation', 'introspection', 'userinfo', 'endSession', 'jwks'] as const;
const RATE_LIMITS = ['perUserPerMinute', 'perAppPerMinute'] as const;

const text = z.string().trim();

/** A text field for each of the names. */
function texts<N extends string>(...names: N[]): Record<N, typeof text> {
  return Object.fromEntries(names.map((name) => [name, text])) as Record<N, typeof text>;
}

/** In the order of the page: faults are listed in it. */
export const newAppForm = z.object({
  ...texts('id', 'name', 'issuer'),
  /** `yes` while the page shows what the provider offers. */
  isRead: z.string(),
  // A secret counts as it is: spaces may belong to it.
  initialAccessToken: z.string(),
  clientId: text,
  clientSecret: z.string(),
  tokenEndpointAuthMethod: text,
  callbackUrl: rows,
  scope: z.array(z.string()),
  ...texts('moreScopes', 'signIn', 'signInClaim', 'signInValues', 'apiBaseUrl', 'threadPath', 'discoveryUrl'),
  ...texts(...ENDPOINTS.map((name) => `endpoint-${name}` as const)),
  returnUrls: lines,
  parameters: lines,
  ...texts('accessTokenLifetimeSeconds', 'refresh', 'par', 'dpop'),
  ...texts(...RATE_LIMITS.map((name) => `rateLimit-${name}` as const)),
  providerSignOut: ticked,
});

/** The same for a registered app, whose id is in the address. */
export const changedAppForm = newAppForm
  .omit({ id: true, initialAccessToken: true })
  .extend({ version: recordVersion });

export const APP_SECRETS = ['clientSecret', 'initialAccessToken'] as const;

/** The form's field for each field of a registration that has another name. */
export const APP_FIELDS: Readonly<Record<string, keyof typeof newAppForm.shape & keyof typeof changedAppForm.shape>> = {
  callbackUrls: 'callbackUrl',
  scopes: 'moreScopes',
  signIn: 'signInClaim',
  ...Object.fromEntries(ENDPOINTS.map((name) => [`endpoints/${name}`, `endpoint-${name}` as const])),
  ...Object.fromEntries(RATE_LIMITS.map((name) => [`rateLimit/${name}`, `rateLimit-${name}` as const])),
};

/** The form of an app; without one, the empty form. */
export function valuesOfApp(app: Partial<ConnectedAppRegistration> = {}): FormValues<typeof newAppForm> {
  const allow = app.signIn?.allow;
  const claim = typeof allow === 'object' ? allow : undefined;
  const { endpoints, rateLimit } = app;
  return {
    id: app.id ?? '',
    name: app.name ?? '',
    issuer: app.issuer ?? '',
    isRead: '',
    initialAccessToken: '',
    clientId: app.clientId ?? '',
    clientSecret: '',
    tokenEndpointAuthMethod: app.tokenEndpointAuthMethod ?? TOKEN_ENDPOINT_AUTH_METHODS[0],
    callbackUrl: app.callbackUrls ?? [],
    scope: app.scopes ?? ['openid', 'profile', 'email', 'offline_access'],
    moreScopes: '',
    signIn: claim ? 'claim' : typeof allow === 'string' ? allow : '',
    signInClaim: claim?.claim ?? '',
    signInValues: claim?.values.join(', ') ?? '',
    apiBaseUrl: app.apiBaseUrl ?? '',
    threadPath: app.threadPath ?? '',
    discoveryUrl: app.discoveryUrl ?? '',
    ...named(ENDPOINTS, (name) => [`endpoint-${name}`, endpoints?.[name] ?? '']),
    returnUrls: (app.returnUrls ?? []).join('\n'),
    parameters: Object.entries(app.parameters ?? {})
      .map(([name, value]) => `${name}=${value}`)
      .join('\n'),
    accessTokenLifetimeSeconds: app.accessTokenLifetimeSeconds?.toString() ?? '',
    refresh: app.refresh ?? '',
    par: app.par ?? 'auto',
    dpop: app.dpop ?? 'auto',
    ...named(RATE_LIMITS, (name) => [`rateLimit-${name}`, rateLimit?.[name]?.toString() ?? '']),
    providerSignOut: (app.providerSignOut ?? true) ? 'yes' : '',
  };
}

type Typed = Omit<z.output<typeof newAppForm>, 'id' | 'initialAccessToken'>;

/** Unchecked. @param callbackUrls as typed, or the default for an empty list */
export function registrationOf(form: Typed, callbackUrls: readonly string[]): Record<string, unknown> {
  return {
    name: form.name,
    issuer: form.issuer,
    clientId: form.clientId,
    clientSecret: form.clientSecret || undefined,
    scopes: [...new Set([...form.scope, ...entriesOf(form.moreScopes, /\s+/)])],
    callbackUrls,
    returnUrls: form.returnUrls,
    providerSignOut: form.providerSignOut,
    tokenEndpointAuthMethod: form.tokenEndpointAuthMethod || undefined,
    discoveryUrl: form.discoveryUrl || undefined,
    apiBaseUrl: form.apiBaseUrl || undefined,
    threadPath: form.threadPath || undefined,
    refresh: form.refresh || undefined,
    par: form.par || undefined,
    dpop: form.dpop || undefined,
    signIn: signInOf(form),
    accessTokenLifetimeSeconds: numberIn(form.accessTokenLifetimeSeconds),
    endpoints: given(ENDPOINTS.map((name) => [name, form[`endpoint-${name}`] || undefined])),
    rateLimit: given(RATE_LIMITS.map((name) => [name, numberIn(form[`rateLimit-${name}`])])),
    parameters: given(form.parameters.map(parameter)),
  };
}

function signInOf({ signIn, signInClaim: claim, signInValues }: Typed): unknown {
  if (signIn === 'everyone') return { allow: 'everyone' };
  return signIn === 'claim' ? { allow: { claim, values: entriesOf(signInValues, ',') } } : undefined;
}

function named<N extends string, F extends string>(
  names: readonly N[],
  field: (name: N) => [F, string],
): Record<F, string> {
  return Object.fromEntries(names.map(field)) as Record<F, string>;
}

/** Undefined where none of them has a value. */
function given(pairs: [string, unknown][]): Record<string, unknown> | undefined {
  const filled = pairs.filter(([, value]) => value !== undefined);
  return filled.length === 0 ? undefined : Object.fromEntries(filled);
}

/** Other text stays as it is: the schema then names the fault. */
function numberIn(typed: string): number | string | undefined {
  if (typed === '') return undefined;
  return /^\d+$/.test(typed) ? Number(typed) : typed;
}

function parameter(line: string): [string, string] {
  const at = line.indexOf('=');
  return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}
