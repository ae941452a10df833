/** The form of a connected app, and its conversion to and from a registration. */
import { z } from 'zod';
import { entriesOf, type FormValues, rows } from '../../../shared/pages/form.ts';
import { scopeToken } from '../../../shared/provider/app-routes.ts';
import { urlsIn } from '../../../shared/provider/callback-url.ts';
import {
  type ConnectedAppRegistration,
  connectedAppSchema,
  TOKEN_ENDPOINT_AUTH_METHODS,
} from '../../../shared/provider/connected-app.ts';
import { cutText } from '../../../shared/text.ts';
import { baseField } from '../editing.ts';
import { DRAWN_FIELDS, drawnEntries, drawnInputs, drawnValues, withGroups } from './drawn-fields.ts';
import { enteredRoutes, ROUTE_INPUTS, routeColumns, routeValues, withoutEmptyRows } from './route-rows.ts';

const text = z.string().trim();

/** Names the scope that is none, since the field has several. */
const moreScopes = text.superRefine((value, context) => {
  for (const scope of entriesOf(value, /\s/)) {
    const [fault] = scopeToken.safeParse(scope).error?.issues ?? [];
    if (fault)
      context.addIssue({ code: 'custom', message: `“${cutText(scope, 60)}” cannot be used. ${fault.message}` });
  }
});

/** Returns a text field for each of the names. */
function texts<N extends string>(...names: N[]): Record<N, typeof text> {
  return Object.fromEntries(names.map((name) => [name, text])) as Record<N, typeof text>;
}

export const newAppForm = z.object({
  ...texts('id', 'name', 'issuer'),
  /** This is `yes` while the page shows the metadata of the provider. */
  isRead: z.string(),
  // Secrets are not trimmed, because they can contain spaces.
  initialAccessToken: z.string(),
  clientId: text,
  clientSecret: z.string(),
  tokenEndpointAuthMethod: text,
  callbackUrl: rows,
  scope: z.array(z.string()),
  moreScopes,
  ...texts('signIn', 'signInClaim', 'signInValues', 'apiBaseUrl', 'threadPath', 'discoveryUrl'),
  ...routeColumns,
  ...drawnInputs,
});

/** The form of a registered app, whose id is in the address. */
export const changedAppForm = newAppForm.omit({ id: true, initialAccessToken: true }).extend({
  base: baseField,
  /** The subject of the question that the page has shown. */
  confirmed: z.string(),
});

export const APP_SECRETS = ['clientSecret', 'initialAccessToken'] as const;

/** Maps the fields of a registration to form fields with another name. */
export const APP_INPUTS: Readonly<Record<string, keyof typeof newAppForm.shape & keyof typeof changedAppForm.shape>> = {
  callbackUrls: 'callbackUrl',
  scopes: 'moreScopes',
  signIn: 'signInClaim',
  ...ROUTE_INPUTS,
  ...Object.fromEntries(DRAWN_FIELDS.map(({ name }) => [name.replace('-', '/'), name])),
};

export const isId = (id: string): boolean => connectedAppSchema.shape.id.safeParse(id).success;

/** Returns the values of an app for the form, or those of the empty form. */
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
    ...routeValues(app.routes),
    discoveryUrl: app.discoveryUrl ?? '',
    ...drawnValues(app),
  };
}

/** Leaves out empty rows, and makes a row of each URL of a list that was pasted into one. */
export const tidied = <Values extends Pick<FormValues<typeof newAppForm>, 'callbackUrl' | keyof typeof routeColumns>>(
  values: Values,
): Values => ({ ...withoutEmptyRows(values), callbackUrl: values.callbackUrl.flatMap(urlsIn) });

type EnteredForm = Omit<z.output<typeof newAppForm>, 'id' | 'initialAccessToken'>;

function scopesOf({ scope, moreScopes }: { scope: readonly string[]; moreScopes: string }): string[] {
  return [...new Set([...scope, ...entriesOf(moreScopes, /\s/)])];
}

/**
 * Converts the form to the unchecked members of a registration, except the secret.
 * @param callbackUrls the entered URLs, or the default URL
 */
export function enteredMembers(form: EnteredForm, callbackUrls: readonly string[]): Record<string, unknown> {
  return {
    name: form.name,
    issuer: form.issuer,
    clientId: form.clientId,
    scopes: scopesOf(form),
    callbackUrls,
    tokenEndpointAuthMethod: form.tokenEndpointAuthMethod || undefined,
    discoveryUrl: form.discoveryUrl || undefined,
    apiBaseUrl: form.apiBaseUrl || undefined,
    threadPath: form.threadPath || undefined,
    routes: enteredRoutes(form),
    signIn: signInOf(form),
    ...drawnEntries(form),
  };
}

/** Converts the form to an unchecked registration. */
export function enteredRegistration(form: EnteredForm, callbackUrls: readonly string[]): Record<string, unknown> {
  return withGroups({ ...enteredMembers(form, callbackUrls), clientSecret: form.clientSecret || undefined });
}

function signInOf({ signIn, signInClaim: claim, signInValues }: EnteredForm): unknown {
  if (signIn === 'everyone') return { allow: 'everyone' };
  return signIn === 'claim' ? { allow: { claim, values: entriesOf(signInValues, ',') } } : undefined;
}
