/** Lists and revokes the apps that users have allowed, and limits the approvals of each app. */
import type { AppRegistry } from './apps.ts';
import type { Payload, ProviderRecords } from './provider-records.ts';

export interface Approval {
  clientId: string;
  appName: string;
  scope: string;
  allowedAtMs: number;
}

export interface Approvals {
  /** Returns one approval for each app, latest first. */
  of(accountId: string): Approval[];
  /** Ends every token of the app for this account. The app must request consent again. */
  revoke(accountId: string, clientId: string): void;
  revokeAll(accountId: string): void;
  /** Revokes all approvals of this app. */
  endApp(clientId: string): void;
  /** Ends the oldest approvals of an app by an account that exceed the limit. */
  trim(accountId: string, clientId: string): void;
}

interface Parts {
  records: ProviderRecords;
  apps: AppRegistry;
  /** Maximum number of approvals of one app by one account. */
  maxApprovals: number;
  /** The client of the sandbox's own pages, which need no consent. */
  ownClientId: string;
}

export function createApprovals({ records, apps, maxApprovals, ownClientId }: Parts): Approvals {
  const grantsOf = (accountId: string, clientId?: string) =>
    records
      .all('Grant')
      .filter(({ payload }) => payload.accountId === accountId && payload.clientId !== ownClientId)
      .filter(({ payload }) => clientId === undefined || payload.clientId === clientId);
  const endAll = (grants: { id: string }[]) => {
    for (const { id } of grants) records.endGrant(id);
  };

  return {
    of(accountId) {
      const byApp = Map.groupBy(grantsOf(accountId), ({ payload }) => payload.clientId ?? '');
      return [...byApp]
        .map(([clientId, grants]) => ({
          clientId,
          appName: apps.find(clientId)?.name ?? clientId,
          scope: [...new Set(grants.flatMap(({ payload }) => scopeOf(payload).split(' ')))].join(' '),
          allowedAtMs: Math.max(...grants.map(({ payload }) => Number(payload.iat) * 1000)),
        }))
        .sort((a, b) => b.allowedAtMs - a.allowedAtMs);
    },
    revoke: (accountId, clientId) => endAll(grantsOf(accountId, clientId)),
    revokeAll: (accountId) => endAll(grantsOf(accountId)),
    endApp: (clientId) => endAll(records.all('Grant').filter(({ payload }) => payload.clientId === clientId)),
    trim(accountId, clientId) {
      const grants = grantsOf(accountId, clientId);
      endAll(grants.slice(0, Math.max(0, grants.length - maxApprovals)));
    },
  };
}

function scopeOf({ openid }: Payload): string {
  return String((openid as { scope?: string } | undefined)?.scope ?? '');
}
