/** Looks connected apps up for pages and API: those of `CONNECTED_APPS_FILE` and those registered here. */
import { AppError } from '../../../shared/errors.ts';
import type { AppRegistry } from '../../connected-apps/app-registry.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { ScheduledChecks } from '../../connected-apps/scheduled-checks.ts';
import type { MissingScopes } from '../../grants/missing-scopes.ts';
import { type ListQuery, matches, pageOf } from '../listing.ts';
import { throwUnknown } from '../resource.ts';
import { type AppView, appView, type LastCheckView, lastCheckView } from './view.ts';

export interface ConnectedAppFacts {
  /** In the order of their ids. */
  page(query: ListQuery): Promise<{ items: AppView[]; next?: string }>;
  /** Ids of the apps that cannot be opened, because their key is gone: they can only be deleted. */
  unreadable(): Promise<string[]>;
  /** With the number of its connections. @throws AppError `not_found` */
  one(id: string): Promise<AppView>;
  /** How many connections would lack scopes if the app had these. */
  lacking(app: AppView, wanted: readonly string[]): Promise<NonNullable<AppView['lacking']>>;
}

export function connectedAppFacts(parts: {
  apps: CurrentApps;
  registry: AppRegistry;
  checks: Pick<ScheduledChecks, 'read'>;
  publicHref: string;
  countConnections: (appId: string) => Promise<number>;
  countLacking: MissingScopes['count'];
}): ConnectedAppFacts {
  const { apps, registry, checks, publicHref, countConnections, countLacking } = parts;

  const lastCheckOf = async (id: string): Promise<Required<LastCheckView> | null> => {
    const last = await checks.read(id);
    return last ? lastCheckView(last) : null;
  };

  const inList = async (app: Omit<AppView, 'lastCheck'>): Promise<AppView> => {
    const last = await lastCheckOf(app.id);
    return { ...app, lastCheck: last && { ...last, findings: undefined } };
  };

  return {
    async page(query) {
      const registered = (await registry.list()).filter((one) => 'app' in one);
      const views = [
        ...apps
          .list()
          .filter(({ id }) => registry.isFromFile(id))
          .map((app) => appView(app, undefined, publicHref)),
        ...registered.filter(({ app }) => !registry.isFromFile(app.id)).map((one) => appView(one.app, one, publicHref)),
      ];
      const found = views.filter(({ id, name, issuer }) => matches(query.q, id, name, issuer));
      const { items, ...more } = pageOf(
        found.sort((left, right) => (left.id < right.id ? -1 : 1)),
        query,
      );
      return { items: await Promise.all(items.map(inList)), ...more };
    },

    async unreadable() {
      return (await registry.list()).flatMap((one) => ('unreadable' in one ? [one.id] : []));
    },

    async one(id) {
      if (await registry.isUnreadable(id)) {
        throw new AppError('not_found', {
          detail:
            'The stored data of this app cannot be opened with the current keys: delete the app, and register it again.',
        });
      }
      const registered = registry.isFromFile(id) ? undefined : await registry.find(id);
      const app = registered?.app ?? (registry.isFromFile(id) ? apps.find(id) : undefined);
      if (!app) throwUnknown('connected app');
      const [lastCheck, connections] = await Promise.all([lastCheckOf(id), countConnections(id)]);
      return { ...appView(app, registered, publicHref), lastCheck, connections };
    },

    async lacking({ id, scopes: before }, wanted) {
      const scopes = wanted.filter((scope) => !before.includes(scope));
      if (scopes.length === 0) return { scopes, connections: 0, exact: true };
      const { count, exact } = await countLacking(id, [...before, ...scopes], scopes);
      return { scopes, connections: count, exact };
    },
  };
}
