/** The two connected apps of the demo, one from the file and one in the store, and its relay token, created by the admin API. */
import { randomBytes } from 'node:crypto';
import type { Sandbox } from './sandbox/sandbox.ts';
import { DAY_MS, isoTime } from './time.ts';

/** @param publicUrl of the demo's Gatehouse */
export function demoApps(publicUrl: string) {
  const secrets = { file: newSecret(), store: newSecret() };
  const platform = { id: 'platform', name: 'Collaboration platform', clientId: 'gatehouse-demo' };
  const team = { id: 'team', name: 'Team workspace', clientId: 'gatehouse-demo-team' };

  const client = ({ id, name, clientId }: typeof platform, clientSecret: string) => ({
    clientId,
    clientSecret,
    name: `Gatehouse demo: ${name}`,
    redirectUris: [`${publicUrl}/oauth/callback/${id}`],
    postLogoutRedirectUris: [`${publicUrl}/`],
    settings: { requirePkce: true },
  });

  const registration = (app: typeof platform, { issuer, platformUrl }: Pick<Sandbox, 'issuer' | 'platformUrl'>) => ({
    ...app,
    issuer,
    scopes: ['openid', 'profile', 'email', 'offline_access', 'platform_read_only'],
    callbackUrls: [`${publicUrl}/oauth/callback/${app.id}`],
    apiBaseUrl: platformUrl,
  });

  return {
    clients: [client(platform, secrets.file), client(team, secrets.store)],
    secrets: { DEMO_CLIENT_SECRET: secrets.file },
    /** The app that administrators can change. */
    edited: team,
    /** For CONNECTED_APPS_FILE. */
    ofFile: (sandbox: Pick<Sandbox, 'issuer' | 'platformUrl'>) => [
      {
        ...registration(platform, sandbox),
        clientSecret: { env: 'DEMO_CLIENT_SECRET' },
        signIn: { allow: 'everyone' },
      },
    ],
    /**
     * Registers the second app and makes the relay token, then revokes the admin token.
     * @param userId the user that the service may act for
     * @returns the relay token
     */
    async setUp(parts: {
      sandbox: Sandbox;
      adminToken: { token: { id: string }; text: string };
      userId: string;
    }): Promise<string> {
      const { sandbox, adminToken, userId } = parts;
      const call = adminCalls(publicUrl, adminToken.text);
      await call('POST', 'connected-apps', { ...registration(team, sandbox), clientSecret: secrets.store });
      const { token } = await call('POST', 'relay-tokens', {
        name: 'Demo service',
        scopes: ['threads:read', 'connections:read'],
        apps: [platform.id],
        users: [userId],
        assertUser: true,
        expiresAt: isoTime(Date.now() + DAY_MS),
      });
      await call('DELETE', `admin-tokens/${adminToken.token.id}`);
      return String(token);
    },
  };
}

const newSecret = () => randomBytes(24).toString('base64url');

function adminCalls(publicUrl: string, adminToken: string) {
  return async (method: 'POST' | 'DELETE', resource: string, body?: object): Promise<Record<string, unknown>> => {
    const response = await fetch(`${publicUrl}/admin/api/${resource}`, {
      method,
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} /admin/api/${resource} failed with ${response.status}: ${text}`);
    return text === '' ? {} : JSON.parse(text);
  };
}
