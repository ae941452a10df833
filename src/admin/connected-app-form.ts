/** Owns the form of a connected app: what stands in its fields, and the registration that they make. Pure. */
import { type ConnectedAppRegistration, TOKEN_ENDPOINT_AUTH_METHODS } from '../connected-apps/connected-app.ts';
import { formField } from '../http/body.ts';

export const ENDPOINT_NAMES = [
  'authorization',
  'token',
  'revocation',
  'introspection',
  'userinfo',
  'endSession',
  'jwks',
] as const;

export const RATE_LIMITS = ['perUserPerMinute', 'perAppPerMinute'] as const;

/** Everything as it was typed; the client secret is never among it. */
export interface AppForm {
  id: string;
  name: string;
  issuer: string;
  discoveryUrl: string;
  clientId: string;
  tokenEndpointAuthMethod: string;
  scopes: string[];
  callbackUrls: string[];
  apiBaseUrl: string;
  threadPath: string;
  /** '' : nobody signs in with it. */
  signIn: '' | 'everyone' | 'claim';
  signInClaim: string;
  signInValues: string;
  /** A line for each. */
  returnUrls: string;
  endpoints: Record<(typeof ENDPOINT_NAMES)[number], string>;
  accessTokenLifetimeSeconds: string;
  refresh: string;
  par: string;
  dpop: string;
  rateLimit: Record<(typeof RATE_LIMITS)[number], string>;
  providerSignOut: boolean;
  /** A line `name=value` for each. */
  parameters: string;
}

/** What the form shows of an app, or the empty form. */
export function formOf(app: Partial<ConnectedAppRegistration> = {}): AppForm {
  const allow = app.signIn?.allow;
  return {
    id: app.id ?? '',
    name: app.name ?? '',
    issuer: app.issuer ?? '',
    discoveryUrl: app.discoveryUrl ?? '',
    clientId: app.clientId ?? '',
    tokenEndpointAuthMethod: app.tokenEndpointAuthMethod ?? TOKEN_ENDPOINT_AUTH_METHODS[0],
    scopes: [...(app.scopes ?? ['openid', 'profile', 'email', 'offline_access'])],
    callbackUrls: [...(app.callbackUrls ?? [])],
    apiBaseUrl: app.apiBaseUrl ?? '',
    threadPath: app.threadPath ?? '',
    signIn: allow === undefined ? '' : allow === 'everyone' ? 'everyone' : 'claim',
    signInClaim: typeof allow === 'object' ? allow.claim : '',
    signInValues: typeof allow === 'object' ? allow.values.join(', ') : '',
    returnUrls: (app.returnUrls ?? []).join('\n'),
    endpoints: Object.fromEntries(
      ENDPOINT_NAMES.map((name) => [name, app.endpoints?.[name] ?? '']),
    ) as AppForm['endpoints'],
    accessTokenLifetimeSeconds: app.accessTokenLifetimeSeconds?.toString() ?? '',
    refresh: app.refresh ?? '',
    par: app.par ?? 'auto',
    dpop: app.dpop ?? 'auto',
    rateLimit: rateLimits((name) => app.rateLimit?.[name]?.toString() ?? ''),
    providerSignOut: app.providerSignOut ?? true,
    parameters: Object.entries(app.parameters ?? {})
      .map(([name, value]) => `${name}=${value}`)
      .join('\n'),
  };
}

/** What was sent, spaces around it taken off. @param callbackUrl stands in for a list that was left empty */
export function readForm(body: unknown, callbackUrl: (id: string) => string): AppForm {
  const text = (name: string) => (formField(body, name) ?? '').trim();
  const id = text('id');
  const callbackUrls = listField(body, 'callbackUrl').filter((url) => url !== '');
  const signIn = text('signIn');
  return {
    id,
    name: text('name'),
    issuer: text('issuer'),
    discoveryUrl: text('discoveryUrl'),
    clientId: text('clientId'),
    tokenEndpointAuthMethod: text('tokenEndpointAuthMethod'),
    scopes: [...new Set([...listField(body, 'scope'), ...text('moreScopes').split(/\s+/)])].filter((one) => one !== ''),
    callbackUrls: callbackUrls.length > 0 || id === '' ? callbackUrls : [callbackUrl(id)],
    apiBaseUrl: text('apiBaseUrl'),
    threadPath: text('threadPath'),
    signIn: signIn === 'everyone' || signIn === 'claim' ? signIn : '',
    signInClaim: text('signInClaim'),
    signInValues: text('signInValues'),
    returnUrls: text('returnUrls'),
    endpoints: Object.fromEntries(
      ENDPOINT_NAMES.map((name) => [name, text(`endpoint-${name}`)]),
    ) as AppForm['endpoints'],
    accessTokenLifetimeSeconds: text('accessTokenLifetimeSeconds'),
    refresh: text('refresh'),
    par: text('par'),
    dpop: text('dpop'),
    rateLimit: rateLimits((name) => text(`rateLimit-${name}`)),
    providerSignOut: formField(body, 'providerSignOut') === 'yes',
    parameters: text('parameters'),
  };
}

/** What the form knows nothing of (set by API) stays as it was. @param before the app that is changed */
export function registrationOf(form: AppForm, before: Partial<ConnectedAppRegistration> = {}): Record<string, unknown> {
  const kept = Object.fromEntries(Object.entries(before).filter(([name]) => !(name in form)));
  const endpoints = given(form.endpoints);
  const { accessTokenLifetimeSeconds: seconds } = form;
  const rateLimit = Object.fromEntries(
    Object.entries(given(form.rateLimit)).map(([name, value]) => [name, numberIn(value)]),
  );
  return {
    ...kept,
    ...given({
      id: form.id,
      name: form.name,
      issuer: form.issuer,
      discoveryUrl: form.discoveryUrl,
      clientId: form.clientId,
      tokenEndpointAuthMethod: form.tokenEndpointAuthMethod,
      apiBaseUrl: form.apiBaseUrl,
      threadPath: form.threadPath,
      refresh: form.refresh,
      par: form.par,
      dpop: form.dpop,
    }),
    scopes: form.scopes,
    callbackUrls: form.callbackUrls,
    returnUrls: lines(form.returnUrls),
    providerSignOut: form.providerSignOut,
    ...(Object.keys(endpoints).length > 0 ? { endpoints } : {}),
    ...(form.signIn === '' ? {} : { signIn: { allow: allowOf(form) } }),
    ...(seconds === '' ? {} : { accessTokenLifetimeSeconds: numberIn(seconds) }),
    ...(Object.keys(rateLimit).length > 0 ? { rateLimit } : {}),
    ...(form.parameters === '' ? {} : { parameters: Object.fromEntries(lines(form.parameters).map(parameter)) }),
  };
}

function rateLimits(read: (name: (typeof RATE_LIMITS)[number]) => string): AppForm['rateLimit'] {
  return { perUserPerMinute: read('perUserPerMinute'), perAppPerMinute: read('perAppPerMinute') };
}

/** What is no number stays as it was typed, and is judged so. */
function numberIn(text: string): number | string {
  return /^\d+$/.test(text) ? Number(text) : text;
}

/** Every value of a field that may be there more than once. */
function listField(body: unknown, name: string): string[] {
  const value = typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[name] : undefined;
  return (Array.isArray(value) ? value : [value]).filter((one) => typeof one === 'string').map((one) => one.trim());
}

function given(fields: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''));
}

function allowOf({ signIn, signInClaim, signInValues }: AppForm): unknown {
  const values = signInValues
    .split(',')
    .map((value) => value.trim())
    .filter((value) => value !== '');
  return signIn === 'everyone' ? 'everyone' : { claim: signInClaim, values };
}

function parameter(line: string): [string, string] {
  const at = line.indexOf('=');
  return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}

function lines(text: string): string[] {
  return text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '');
}
