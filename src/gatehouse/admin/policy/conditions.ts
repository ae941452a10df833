/** Checks what a relay call needs in addition to the policy: an enabled app, and a working connection. */
import type { ConnectedApp } from '../../../shared/provider/connected-app.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { Connections } from '../../grants/connections.ts';
import type { RelayCall, RuleCheck } from '../../relay/policy.ts';

export type Condition = Omit<RuleCheck, 'rule'>;

const CONNECTED = 'The user has connected the app, and the connection works.';

export async function conditionsOf(
  { apps, connections }: { apps: Pick<CurrentApps, 'find'>; connections: Pick<Connections, 'find'> },
  { scope, app: appId, subject, route }: RelayCall,
  routeName: string | undefined,
): Promise<Condition[]> {
  const app = appId === undefined ? undefined : apps.find(appId);
  const usesConnection = scope === 'threads:read' || scope === 'api:call' || scope === 'token:exchange';
  const needsConnection = appId !== undefined && usesConnection && subject?.kind === 'user';
  const connection = needsConnection ? await connections.find(subject.id, appId) : undefined;
  return [
    condition('The connected app exists and is enabled.', appId === undefined ? undefined : appFault(app)),
    condition(
      'The connected app serves threads.',
      scope === 'threads:read' && app
        ? app.apiBaseUrl === undefined && 'The app has no API base URL, where threads are read.'
        : undefined,
    ),
    condition(
      'The connected app declares the route.',
      scope === 'api:call' && app && routeName !== undefined
        ? route === undefined && 'The app declares no route with this name.'
        : undefined,
    ),
    condition(
      CONNECTED,
      !needsConnection
        ? undefined
        : !connection
          ? 'The user has not connected this app.'
          : connection.health === 'reconnect_needed' && 'Reconnect needed: the user must reconnect.',
    ),
  ];
}

function appFault(app: ConnectedApp | undefined): string | false {
  if (!app) return 'There is no connected app with this id.';
  return app.disabled === true && 'An administrator has disabled this app.';
}

/** Returns the result. @param fault `false` if there is none; undefined if the condition does not apply to the call */
function condition(check: string, fault: string | false | undefined): Condition {
  if (fault === undefined) return { check, result: 'not_applicable' };
  return fault === false ? { check, result: 'passed' } : { check, result: 'failed', detail: fault };
}
