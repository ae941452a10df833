/** The form of a connected app, and the registration that it makes, which `connectedAppSchema` then checks. */
import { z } from 'zod';
import { entriesOf, type FormValues, recordVersion, rows } from '../../../shared/pages/form.ts';
import {
  type ConnectedAppRegistration,
  connectedAppSchema,
  TOKEN_ENDPOINT_AUTH_METHODS,
} from '../../../shared/provider/connected-app.ts';
import { DRAWN_FIELDS, drawnInputs, drawnMembers, drawnValues } from './drawn-fields.ts';

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
  // Not trimmed, because spaces may belong to a secret.
  initialAccessToken: z.string(),
  clientId: text,
  clientSecret: z.string(),
  tokenEndpointAuthMethod: text,
  callbackUrl: rows,
  scope: z.array(z.string()),
  ...texts('moreScopes', 'signIn', 'signInClaim', 'signInValues', 'apiBaseUrl', 'threadPath', 'discoveryUrl'),
  ...drawnInputs,
});

/** The same for a registered app, whose id is in the address. */
export const changedAppForm = newAppForm.omit({ id: true, initialAccessToken: true }).extend({
  version: recordVersion,
  /** The added scopes whose effect the page has shown, separated by spaces. */
  confirmed: z.string(),
});

export const APP_SECRETS = ['clientSecret', 'initialAccessToken'] as const;

/** The form's field for each field of a registration that has another name. */
export const APP_FIELDS: Readonly<Record<string, keyof typeof newAppForm.shape & keyof typeof changedAppForm.shape>> = {
  callbackUrls: 'callbackUrl',
  scopes: 'moreScopes',
  signIn: 'signInClaim',
  ...Object.fromEntries(DRAWN_FIELDS.map(({ name }) => [name.replace('-', '/'), name])),
};

export const isId = (id: string): boolean => connectedAppSchema.shape.id.safeParse(id).success;

/** The form of an app; without one, the empty form. */
export function valuesOfApp(app: Partial<ConnectedAppRegistration> = {}): FormValues<typeof newAppForm> {
  const allow = app.signIn?.allow;
  const claim = typeof allow === 'object' ? allow : undefined;
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
    ...drawnValues(app),
  };
}

type Typed = Omit<z.output<typeof newAppForm>, 'id' | 'initialAccessToken'>;

/** Of the form as it was typed. */
export function scopesOf({ scope, moreScopes }: { scope: readonly string[]; moreScopes: string }): string[] {
  return [...new Set([...scope, ...entriesOf(moreScopes, /\s/)])];
}

/** Unchecked. @param callbackUrls as typed, or the default for an empty list */
export function registrationOf(form: Typed, callbackUrls: readonly string[]): Record<string, unknown> {
  return {
    name: form.name,
    issuer: form.issuer,
    clientId: form.clientId,
    clientSecret: form.clientSecret || undefined,
    scopes: scopesOf(form),
    callbackUrls,
    tokenEndpointAuthMethod: form.tokenEndpointAuthMethod || undefined,
    discoveryUrl: form.discoveryUrl || undefined,
    apiBaseUrl: form.apiBaseUrl || undefined,
    threadPath: form.threadPath || undefined,
    signIn: signInOf(form),
    ...drawnMembers(form),
  };
}

function signInOf({ signIn, signInClaim: claim, signInValues }: Typed): unknown {
  if (signIn === 'everyone') return { allow: 'everyone' };
  return signIn === 'claim' ? { allow: { claim, values: entriesOf(signInValues, ',') } } : undefined;
}
