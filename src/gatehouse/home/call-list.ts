/** The API calls that the home page lists: the routes of the apps that the user has connected. */
import type { AppCalls, ConnectionView } from '../../shared/pages/page-data.ts';
import type { ThreadApp } from '../connected-apps/current-apps.ts';
import { routesOf } from '../connected-apps/route-match.ts';

/** Leaves out apps without declared routes, since the page shows their current thread. */
export function callList(apps: readonly ThreadApp[], connections: readonly ConnectionView[]): AppCalls[] {
  const names = new Map(
    connections.filter(({ health }) => health !== 'not_connected').map(({ id, name }) => [id, name]),
  );
  return apps
    .filter(({ routes }) => routes.length > 0)
    .flatMap((app) => {
      const appName = names.get(app.id);
      return appName === undefined ? [] : [{ appId: app.id, appName, calls: callsOf(app) }];
    });
}

const callsOf = (app: ThreadApp): AppCalls['calls'] =>
  routesOf(app).map(({ method, path }) => ({ method, path, isLink: method === 'GET' && !path.includes('{') }));
