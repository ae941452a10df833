/** Owns what people allowed apps: the list that a person sees, taking it back, and how many approvals one app may hold. */
import type { AppRegistry } from './apps.ts';
import type { Payload, ProviderRecords } from './provider-records.ts';

export interface Approval {
  clientId: string;
  appName: string;
  scope: string;
  allowedAtMs: number;
}

export interface Approvals {
  /** One for each app, the latest first. */
  of(accountId: string): Approval[];
  /** Ends every token that the app holds for this account; it has to ask again. */
  takeBack(accountId: string, clientId: string): void;
  takeBackAll(accountId: string): void;
  /** Ends what everyone allowed this app. */
  endApp(clientId: string): void;
  /** Ends the oldest ones where an account has approved the same app more often than is kept. */
  trim(accountId: string, clientId: string): void;
}

interface Parts {
  records: ProviderRecords;
  apps: AppRegistry;
  /** How many approvals of one app by one account live at a time. */
  keep: number;
  /** The sandbox's own pages, which nobody needs to allow. */
  ownClientId: string;
}

export function createApprovals({ records, apps, keep, ownClientId }: Parts): Approvals {
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
    takeBack: (accountId, clientId) => endAll(grantsOf(accountId, clientId)),
    takeBackAll: (accountId) => endAll(grantsOf(accountId)),
    endApp: (clientId) => endAll(records.all('Grant').filter(({ payload }) => payload.clientId === clientId)),
    trim(accountId, clientId) {
      const grants = grantsOf(accountId, clientId);
      endAll(grants.slice(0, Math.max(0, grants.length - keep)));
    },
  };
}

function scopeOf({ openid }: Payload): string {
  return String((openid as { scope?: string } | undefined)?.scope ?? '');
}
