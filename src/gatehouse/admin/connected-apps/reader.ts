/** Reads connected apps for pages and the API, from `CONNECTED_APPS_FILE` and from the storage. */
import { AppError } from '../../../shared/errors.ts';
import type { AppRegistry } from '../../connected-apps/app-registry.ts';
import type { ConnectedApps } from '../../connected-apps/connected-apps.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { ScheduledChecks } from '../../connected-apps/scheduled-checks.ts';
import type { MissingScopes } from '../../grants/missing-scopes.ts';
import { type ListQuery, matches, pageOf } from '../listing.ts';
import { throwUnknown } from '../resource.ts';
import { type AppView, appView, type LastCheckView, lastCheckView } from './view.ts';

export interface ConnectedAppReader {
  /** Returns a page of the list, sorted by id. */
  page(query: ListQuery): Promise<{ items: AppView[]; next?: string }>;
  /** Returns the ids of the apps whose encryption key is missing. These apps can only be deleted. */
  unreadable(): Promise<string[]>;
  /** Reads an app, with the number of its connections. @throws AppError `not_found` */
  read(id: string): Promise<AppView>;
  /** Counts the connections that would lack scopes if the app had the planned ones. */
  countMissingScopes(app: AppView, plannedScopes: readonly string[]): Promise<NonNullable<AppView['missingScopes']>>;
}

export function connectedAppReader(parts: {
  apps: CurrentApps;
  registry: AppRegistry;
  checks: Pick<ScheduledChecks, 'read' | 'isOutdated'>;
  findIneffectiveEndpoints: ConnectedApps['findIneffectiveEndpoints'];
  publicHref: string;
  countConnections: (appId: string) => Promise<number>;
  countConnectionsWithout: MissingScopes['count'];
}): ConnectedAppReader {
  const { apps, registry, checks, findIneffectiveEndpoints, publicHref } = parts;
  const { countConnections, countConnectionsWithout } = parts;

  type CheckedApp = Pick<AppView, 'id' | 'changedAt'>;
  const lastCheckOf = async ({ id, changedAt }: CheckedApp): Promise<Required<LastCheckView> | null> => {
    const lastCheck = await checks.read(id);
    const changeTime = changedAt === null ? undefined : Date.parse(changedAt);
    return lastCheck ? lastCheckView(lastCheck, checks.isOutdated(id, lastCheck, changeTime)) : null;
  };

  const withLastCheck = async (app: Omit<AppView, 'lastCheck'>): Promise<AppView> => {
    const lastCheck = await lastCheckOf(app);
    return { ...app, lastCheck: lastCheck && { ...lastCheck, findings: undefined } };
  };

  return {
    async page(query) {
      const registered = (await registry.list()).filter((record) => 'app' in record);
      const views = [
        ...apps
          .list()
          .filter(({ id }) => registry.isFromFile(id))
          .map((app) => appView(app, undefined, publicHref)),
        ...registered
          .filter(({ app }) => !registry.isFromFile(app.id))
          .map((record) => appView(record.app, record, publicHref)),
      ];
      const matching = views.filter(({ id, name, issuer }) => matches(query.q, id, name, issuer));
      const { items, ...rest } = pageOf(
        matching.sort((left, right) => (left.id < right.id ? -1 : 1)),
        query,
      );
      return { items: await Promise.all(items.map(withLastCheck)), ...rest };
    },

    async unreadable() {
      return (await registry.list()).flatMap((record) => ('unreadable' in record ? [record.id] : []));
    },

    async read(id) {
      if (await registry.isUnreadable(id)) {
        throw new AppError('not_found', {
          detail:
            'The stored data of this app cannot be opened with the current keys. Delete the app and register it again.',
        });
      }
      const registered = registry.isFromFile(id) ? undefined : await registry.find(id);
      const app = registered?.app ?? (registry.isFromFile(id) ? apps.find(id) : undefined);
      if (!app) throwUnknown('connected app');
      // The metadata is cached by the object in use.
      const inUse = apps.find(id) ?? app;
      const view = appView(app, registered, publicHref);
      const [lastCheck, connections, ineffectiveEndpoints] = await Promise.all([
        lastCheckOf(view),
        countConnections(id),
        findIneffectiveEndpoints(inUse),
      ]);
      return { ...view, lastCheck, connections, ineffectiveEndpoints };
    },

    async countMissingScopes({ id, scopes: currentScopes }, plannedScopes) {
      const scopes = plannedScopes.filter((scope) => !currentScopes.includes(scope));
      if (scopes.length === 0) return { scopes, connections: 0, exact: true };
      const { count, exact } = await countConnectionsWithout(id, [...currentScopes, ...scopes], scopes);
      return { scopes, connections: count, exact };
    },
  };
}
