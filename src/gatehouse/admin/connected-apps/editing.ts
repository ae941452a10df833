/** The form of a connected app that another administrator may change at the same time. */
import { isObject } from '../../../shared/json.ts';
import type { ConnectedAppRegistration } from '../../../shared/provider/connected-app.ts';
import { createEditing, type Editing, wordsOfValue } from '../editing.ts';
import type { Members } from '../merge.ts';
import type { AdminParts } from '../parts.ts';
import { DRAWN_FIELDS, withGroups } from './drawn-fields.ts';
import { enteredMembers, newAppForm, valuesOfApp } from './form.ts';
import type { AppView } from './view.ts';

const LABELS: Readonly<Record<string, string>> = {
  name: 'Name',
  issuer: 'Issuer',
  clientId: 'Client ID',
  clientSecret: 'Client secret',
  scopes: 'Scopes',
  callbackUrls: 'Callback URLs',
  tokenEndpointAuthMethod: 'Client authentication',
  discoveryUrl: 'Discovery URL',
  apiBaseUrl: 'API base URL',
  threadPath: 'Path of the current thread',
  routes: 'Routes',
  signIn: 'Who may sign in',
  ...Object.fromEntries(DRAWN_FIELDS.map(({ name, label }) => [name, label])),
};

export function appEditing(parts: AdminParts): Editing {
  return createEditing(parts, {
    resource: 'connected_app',
    noun: 'app',
    changes: ['connected_app.changed', 'connected_app.secret_replaced'],
    labelOf: (member) => LABELS[member] ?? member,
    wordsOf,
  });
}

/** Returns the members as the form of the app would send them; in place of the secret, when it was set. */
export function membersOfApp(app: AppView): Members {
  const form = newAppForm.parse(valuesOfApp(app));
  return { ...enteredMembers(form, form.callbackUrl), clientSecret: app.clientSecretSetAt ?? undefined };
}

/** Returns the values of the form for merged members. */
export function valuesOfMembers(merged: Members): object {
  const { id, isRead, initialAccessToken, clientSecret, ...values } = valuesOfApp(
    withGroups(merged) as Partial<ConnectedAppRegistration>,
  );
  return values;
}

function wordsOf(member: string, value: unknown): string | undefined {
  if (member === 'clientSecret') return undefined;
  if (member === 'signIn') return signInWords(value as ConnectedAppRegistration['signIn']);
  if (member === 'routes' && isObject(value)) return routeWords(value);
  const option = DRAWN_FIELDS.find(({ name }) => name === member)?.options.find(([choice]) => choice === value);
  if (option) return option[1];
  return isObject(value)
    ? Object.entries(value)
        .map(([name, inner]) => `${name}=${inner}`)
        .join(', ')
    : wordsOfValue(member, value);
}

function signInWords(signIn: ConnectedAppRegistration['signIn']): string {
  if (!signIn) return 'no users';
  if (signIn.allow === 'everyone') return 'all users of the provider';
  return `users with ${signIn.allow.claim}: ${signIn.allow.values.join(', ')}`;
}

function routeWords({ method, path, query, scopes }: Members): string {
  const parts = [
    ['with', query],
    ['scopes', scopes],
  ].flatMap(([label, list]) => (Array.isArray(list) && list.length > 0 ? [`${label} ${list.join(' ')}`] : []));
  return [`${method} ${path}`, ...parts].join(', ');
}
