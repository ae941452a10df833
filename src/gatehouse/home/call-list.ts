/** The API calls that the home page lists: the routes of the apps that the user has connected. */
import type { AppCalls, ConnectionView } from '../../shared/pages/page-data.ts';
import type { ThreadApp } from '../connected-apps/current-apps.ts';
import { routesOf } from '../connected-apps/route-match.ts';

/** Leaves out apps without declared routes, since the page shows their current thread. */
export function callList(apps: readonly ThreadApp[], connections: readonly ConnectionView[]): AppCalls[] {
  const isConnected = ({ id: appId }: ThreadApp) =>
    connections.some(({ id, health }) => id === appId && health !== 'not_connected');
  return apps
    .filter((app) => app.routes.length > 0 && isConnected(app))
    .map((app) => ({
      appId: app.id,
      appName: app.name,
      calls: routesOf(app).map(({ method, path }) => ({
        method,
        path,
        isLink: method === 'GET' && !path.includes('{'),
      })),
    }));
}
