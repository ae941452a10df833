/** Looks connected apps up for pages and API: those of `CONNECTED_APPS_FILE` and those registered here. */
import type { AppRegistry } from '../../connected-apps/app-registry.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import { AppError } from '../../errors.ts';
import { type ListQuery, matches, pageOf } from '../listing.ts';
import { throwUnknown } from '../resource.ts';
import { type AppView, appView } from './view.ts';

export type ConnectedAppFacts = ReturnType<typeof connectedAppFacts>;

export function connectedAppFacts(parts: {
  apps: CurrentApps;
  registry: AppRegistry;
  publicHref: string;
  countConnections: (appId: string) => Promise<number>;
}) {
  const { apps, registry, publicHref, countConnections } = parts;
  return {
    /** In the order of their ids. */
    async page(query: ListQuery): Promise<{ items: AppView[]; next?: string }> {
      const registered = (await registry.list()).filter((one) => 'app' in one);
      const views = [
        ...apps
          .list()
          .filter(({ id }) => registry.isFromFile(id))
          .map((app) => appView(app, undefined, publicHref)),
        ...registered.filter(({ app }) => !registry.isFromFile(app.id)).map((one) => appView(one.app, one, publicHref)),
      ];
      const found = views.filter(({ id, name, issuer }) => matches(query.q, id, name, issuer));
      return pageOf(
        found.sort((left, right) => (left.id < right.id ? -1 : 1)),
        query,
      );
    },

    /** Ids of the apps that cannot be opened, because their key is gone: they can only be deleted. */
    async unreadable(): Promise<string[]> {
      return (await registry.list()).flatMap((one) => ('unreadable' in one ? [one.id] : []));
    },

    /** With the number of its connections. @throws AppError `not_found` */
    async one(id: string): Promise<AppView> {
      if (await registry.isUnreadable(id)) {
        throw new AppError('not_found', {
          detail:
            'The stored data of this app cannot be opened with the current keys: delete the app, and register it again.',
        });
      }
      const registered = registry.isFromFile(id) ? undefined : await registry.find(id);
      const app = registered?.app ?? (registry.isFromFile(id) ? apps.find(id) : undefined);
      if (!app) throwUnknown('connected app');
      return { ...appView(app, registered, publicHref), connections: await countConnections(id) };
    },
  };
}
