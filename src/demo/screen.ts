/** Composes the text that the demo prints: its URL, the accounts, and a few steps to try. */
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { DemoApps } from './apps.ts';
import { SEED } from './people.ts';
import { REFUSED_REFERENCE } from './visits.ts';

export function demoScreen(parts: {
  publicUrl: string;
  /** The URL to which a front end must forward requests; undefined without a front end. */
  localUrl: string | undefined;
  managementUrl: string;
  sandbox: Pick<Sandbox, 'accounts' | 'issuer' | 'binServiceUrl'>;
  apps: DemoApps;
  tourUrl: string;
  logFile: string;
  relayToken: string;
  /** Login of the user whom the relay call names. */
  user: string;
  userId: string;
  /** Whether the folder has a `.env`, whose settings commands use instead of the demo's. */
  hasOwnSettings: boolean;
}): string {
  const { publicUrl, localUrl, managementUrl, sandbox, tourUrl, logFile, relayToken, user, userId, hasOwnSettings } =
    parts;
  const { platform, staff } = parts.apps;
  const { issuer, binServiceUrl } = sandbox;
  const historyLogins = SEED.users.map(({ login }) => login);
  const accounts = sandbox.accounts.filter(({ login }) => !historyLogins.includes(login));
  const width = Math.max(...accounts.map(({ login }) => login.length));
  const accountLines = accounts.map(
    ({ login, name, groups }) =>
      `  ${login.padEnd(width)}  ${name}${groups.length > 0 ? ` (administrator, signs in with ${staff.name})` : ''}`,
  );
  const forwarding =
    localUrl === undefined ? '' : `\nYour front end must forward these requests to ${localUrl}, with this path`;
  const warning =
    'Commands (npm run gatehouse) use the .env of this folder, not the demo. To try them, run the demo elsewhere.\n';
  return `
Gatehouse is ready at ${publicUrl}${forwarding}

Each account has the password ${accounts[0]?.password}:
${accountLines.join('\n')}

1. Sign in with ${platform.name} as ${user}, read the thread, and look up the BIN 45717360.
2. Wait a minute: the access token expires. Then open GET /1/threads under "API calls": it still works.
3. In a private window, sign in with it as second@example.test and choose Deny: the page shows a reference.
4. There: Use another account, ${staff.name}, sign in as admin@example.test, Switch, Allow. Then enter the
   reference (or ${REFUSED_REFERENCE}) at ${publicUrl}/admin/sign-ins
5. Check the app, change its scopes and callback URLs: ${publicUrl}/admin/connected-apps/${platform.id}
6. List threads as a back-end service: curl -i '${publicUrl}/relay/api/${platform.id}/1/threads?limit=2' \\
     -H 'Gatehouse-User: ${userId}' \\
     -H 'Authorization: Bearer ${relayToken}'
7. Make the provider fail, see what Gatehouse does, and find more to try: ${tourUrl}

Identity provider   ${issuer}
BIN lookup service  ${binServiceUrl}/account
Metrics             ${managementUrl}/metrics
Log                 ${logFile}
${hasOwnSettings ? `\n${warning}` : ''}
Press Ctrl+C to stop the demo and delete everything.
`;
}
