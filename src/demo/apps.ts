/** The demo's connected apps: two that administrators can change, and one in the file, with which they sign in. */
import { randomBytes } from 'node:crypto';
import { ADMIN_GROUP } from '../sandbox/accounts.ts';
import type { SandboxClient } from '../sandbox/clients.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { FULL_SCOPE, READ_SCOPE } from '../sandbox/scopes.ts';
import { type ConnectedAppRegistration, connectedAppSchema } from '../shared/provider/connected-app.ts';

export interface DemoApp {
  id: string;
  name: string;
  clientId: string;
  clientSecret: string;
  scopes: readonly string[];
  /** Undefined for an app that users only connect. */
  signIn?: ConnectedAppRegistration['signIn'];
  /** Whether the platform's API is called with its tokens. */
  hasPlatform: boolean;
  callbackUrl: string;
}

export interface DemoApps {
  platform: DemoApp;
  team: DemoApp;
  /** The app in CONNECTED_APPS_FILE. */
  staff: DemoApp;
}

/** The calls that the sandbox invented. */
export const ROUTES: ConnectedAppRegistration['routes'] = [
  { name: 'threads', method: 'GET', path: '/1/threads', query: ['limit', 'cursor'], scopes: [READ_SCOPE] },
  { name: 'thread', method: 'GET', path: '/1/threads/{id}', query: [], scopes: [READ_SCOPE] },
  { name: 'message', method: 'POST', path: '/1/threads/{id}/messages', query: [], scopes: [FULL_SCOPE] },
];

/** @param publicUrl the public URL of the demo's Gatehouse */
export function demoApps(publicUrl: string): DemoApps {
  const scopes = ['openid', 'profile', 'email', 'offline_access'];
  const app = (id: string, details: Pick<DemoApp, 'name' | 'clientId' | 'signIn' | 'hasPlatform'>): DemoApp => ({
    id,
    clientSecret: randomBytes(24).toString('base64url'),
    scopes: details.hasPlatform ? [...scopes, READ_SCOPE, FULL_SCOPE] : scopes,
    callbackUrl: `${publicUrl}/oauth/callback/${id}`,
    ...details,
  });
  return {
    platform: app('platform', {
      name: 'Collaboration platform',
      clientId: 'gatehouse-demo',
      signIn: { allow: 'everyone' },
      hasPlatform: true,
    }),
    team: app('team', { name: 'Team workspace', clientId: 'gatehouse-demo-team', hasPlatform: true }),
    staff: app('staff', {
      name: 'Staff account',
      clientId: 'gatehouse-demo-staff',
      signIn: { allow: { claim: 'groups', values: [ADMIN_GROUP] } },
      hasPlatform: false,
    }),
  };
}

/** Returns the registration of the app at the sandbox. */
export function clientOf({ name, clientId, clientSecret, callbackUrl }: DemoApp): SandboxClient {
  return {
    clientId,
    clientSecret,
    name: `Gatehouse demo: ${name}`,
    redirectUris: [callbackUrl],
    // Gatehouse's start page. Callback URLs end with `/oauth/callback/ID`.
    postLogoutRedirectUris: [new URL('../../', callbackUrl).href],
    settings: { requirePkce: true },
  };
}

/** Returns the registration of the app in Gatehouse. */
export function demoRegistration(
  { id, name, clientId, scopes, signIn, hasPlatform, callbackUrl }: DemoApp,
  { issuer, platformUrl }: Pick<Sandbox, 'issuer' | 'platformUrl'>,
): ConnectedAppRegistration {
  const base = { id, name, clientId, issuer, scopes, callbackUrls: [callbackUrl], signIn };
  const platform = hasPlatform ? { apiBaseUrl: platformUrl, resources: [platformUrl], routes: ROUTES } : {};
  return connectedAppSchema.parse({ ...base, ...platform });
}

/** Returns the entry in CONNECTED_APPS_FILE. @param secretVariable the environment variable of the client secret */
export function entryOf(app: DemoApp, sandbox: Pick<Sandbox, 'issuer' | 'platformUrl'>, secretVariable: string) {
  return { ...demoRegistration(app, sandbox), clientSecret: { env: secretVariable } };
}
