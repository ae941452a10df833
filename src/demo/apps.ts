/** The two connected apps of the demo: one of the file, one that administrators can change. */
import { randomBytes } from 'node:crypto';
import { type ConnectedAppRegistration, connectedAppSchema } from '../connected-apps/connected-app.ts';
import type { SandboxClient } from '../sandbox/clients.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

export interface DemoApp {
  id: string;
  name: string;
  clientId: string;
  clientSecret: string;
  scopes: readonly string[];
  callbackUrl: string;
}

export type DemoApps = ReturnType<typeof demoApps>;

/** @param publicUrl of the demo's Gatehouse */
export function demoApps(publicUrl: string) {
  const app = (id: string, name: string, clientId: string): DemoApp => ({
    id,
    name,
    clientId,
    clientSecret: randomBytes(24).toString('base64url'),
    scopes: ['openid', 'profile', 'email', 'offline_access', 'platform_read_only'],
    callbackUrl: `${publicUrl}/oauth/callback/${id}`,
  });
  const platform = app('platform', 'Collaboration platform', 'gatehouse-demo');
  const team = app('team', 'Team workspace', 'gatehouse-demo-team');
  return { platform, team };
}

/** What the sandbox registers. */
export function clientOf({ name, clientId, clientSecret, callbackUrl }: DemoApp): SandboxClient {
  return {
    clientId,
    clientSecret,
    name: `Gatehouse demo: ${name}`,
    redirectUris: [callbackUrl],
    postLogoutRedirectUris: [new URL('/', callbackUrl).href],
    settings: { requirePkce: true },
  };
}

/** What Gatehouse registers. */
export function registrationOf(
  { id, name, clientId, scopes, callbackUrl }: DemoApp,
  { issuer, platformUrl }: Pick<Sandbox, 'issuer' | 'platformUrl'>,
): ConnectedAppRegistration {
  const own = { id, name, clientId, issuer, scopes, callbackUrls: [callbackUrl] };
  return connectedAppSchema.parse({ ...own, apiBaseUrl: platformUrl, resources: [platformUrl] });
}

/** The entry of CONNECTED_APPS_FILE. @param secretIn the variable that holds the client secret */
export function entryOf(app: DemoApp, sandbox: Pick<Sandbox, 'issuer' | 'platformUrl'>, secretIn: string) {
  return { ...registrationOf(app, sandbox), clientSecret: { env: secretIn }, signIn: { allow: 'everyone' } };
}
