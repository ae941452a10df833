/** Owns the list of connected apps: which there are, and which one a route means. */
import { AppError } from '../errors.ts';
import type { ConnectedApp } from './connected-app.ts';

/** An app with a platform behind it. */
export type ThreadApp = ConnectedApp & { readonly apiBaseUrl: string };

export interface AppStore {
  list(): readonly ConnectedApp[];
  find(id: string): ConnectedApp | undefined;
  /** Those that can sign users in. */
  signInApps(): readonly ConnectedApp[];
  /** Those that serve threads. */
  threadApps(): readonly ThreadApp[];
  /**
   * The app that serves threads: the one named, or the only one there is.
   * @throws AppError `invalid_request` where none is meant, `not_found` where the named one is unknown
   */
  threadApp(id: string | undefined): ThreadApp;
}

export function createAppStore(apps: readonly ConnectedApp[]): AppStore {
  const byId = new Map(apps.map((app) => [app.id, app]));
  const signInApps = apps.filter((app) => app.signIn !== undefined);
  const threadApps = apps.filter(servesThreads);
  return {
    list: () => apps,
    find: (id) => byId.get(id),
    signInApps: () => signInApps,
    threadApps: () => threadApps,
    threadApp(id) {
      if (id !== undefined) {
        const named = threadApps.find((app) => app.id === id);
        if (named) return named;
        throw new AppError('not_found', { detail: 'There is no connected app with this id that serves threads.' });
      }
      const [only] = threadApps;
      if (only && threadApps.length === 1) return only;
      const detail = only
        ? 'Several connected apps serve threads: name one with "app".'
        : 'No connected app serves threads.';
      throw new AppError('invalid_request', { detail });
    },
  };
}

function servesThreads(app: ConnectedApp): app is ThreadApp {
  return app.apiBaseUrl !== undefined;
}
