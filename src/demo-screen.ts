/** The text that the demo prints: its URL, the accounts, and one step for each use of Gatehouse. */
import type { Sandbox } from './sandbox/sandbox.ts';

export function demoScreen(parts: {
  publicUrl: string;
  managementUrl: string;
  sandbox: Pick<Sandbox, 'accounts' | 'issuer' | 'binServiceUrl'>;
  logFile: string;
  /** The app that an administrator can change. */
  app: { id: string; name: string };
  relayToken: string;
  /** Login of the user that the relay token may act for. */
  user: string;
  userId: string;
}): string {
  const { publicUrl, managementUrl, sandbox, logFile, app, relayToken, user, userId } = parts;
  const { accounts, issuer, binServiceUrl } = sandbox;
  const width = Math.max(...accounts.map(({ login }) => login.length));
  const accountLines = accounts.map(
    ({ login, name, groups }) => `  ${login.padEnd(width)}  ${name}${groups.length > 0 ? ' (administrator)' : ''}`,
  );
  return `
Gatehouse is ready at ${publicUrl}

Each account has the password ${accounts[0]?.password}:
${accountLines.join('\n')}

1. As a user: open ${publicUrl}, sign in as ${user} and allow access.
   Read the current thread and look up the BIN 45717360.
   Wait a minute: the access token expires, and the thread still loads.

2. As an administrator: in a private window, sign in as admin@example.test and open
   ${publicUrl}/admin/connected-apps/${app.id}
   Add the callback URL https://*.example.com/callback and save: the rule that refuses it is named.
   Remove it, add the scope platform_full_access under Other scopes, and save. Then connect ${app.name}
   as ${user}: ${publicUrl}/connections/${app.id} offers the new scope.

3. As a back-end service: read that user's thread with a relay token. Until step 1 is done, this is refused.
   curl ${publicUrl}/relay/threads/current \\
     -H 'Authorization: Bearer ${relayToken}' \\
     -H 'Gatehouse-User: ${userId}'
   The state of the connection, without a token of the user:
   curl ${publicUrl}/relay/connections \\
     -H 'Authorization: Bearer ${relayToken}'

Identity provider   ${issuer}
BIN lookup service  ${binServiceUrl}/account
Metrics             ${managementUrl}/metrics
Logs                ${logFile}

Press Ctrl+C to stop the demo and delete everything.
`;
}
