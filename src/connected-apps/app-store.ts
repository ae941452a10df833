/** Owns the list of connected apps: which there are now, and which one a route means. */
import { AppError } from '../errors.ts';
import type { ConnectedApp } from './connected-app.ts';

/** An app with a platform behind it. */
export type ThreadApp = ConnectedApp & { readonly apiBaseUrl: string };

/** Every answer is of this moment: administrators add, change and remove apps while requests come in. */
export interface AppStore {
  /** Disabled ones included. */
  list(): readonly ConnectedApp[];
  /** Also a disabled one, whose connections can still be seen and ended: whoever is to call with it has to refuse that. */
  find(id: string): ConnectedApp | undefined;
  /** Those that can sign users in. */
  signInApps(): readonly ConnectedApp[];
  /** Those that serve threads. */
  threadApps(): readonly ThreadApp[];
  /**
   * The app that serves threads: the one named, or the only one there is.
   * @throws AppError `invalid_request` where none is meant, `not_found` where the named one is unknown or disabled
   */
  threadApp(id: string | undefined): ThreadApp;
}

/** The same, for whoever knows of changes. An app that did not change has to be the same object: much hangs on it. */
export interface LiveAppStore extends AppStore {
  replace(apps: readonly ConnectedApp[]): void;
}

export function createAppStore(apps: readonly ConnectedApp[]): LiveAppStore {
  let now = snapshotOf(apps);
  return {
    replace(changed) {
      now = snapshotOf(changed);
    },
    list: () => now.apps,
    find: (id) => now.byId.get(id),
    signInApps: () => now.signInApps,
    threadApps: () => now.threadApps,
    threadApp(id) {
      const { threadApps, byId } = now;
      if (id !== undefined) {
        const named = threadApps.find((app) => app.id === id);
        if (named) return named;
        const detail = byId.get(id)?.disabled
          ? 'An administrator has disabled this connected app.'
          : 'There is no connected app with this id that serves threads.';
        throw new AppError('not_found', { detail });
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

function snapshotOf(apps: readonly ConnectedApp[]) {
  const enabled = apps.filter((app) => !app.disabled);
  return {
    apps,
    byId: new Map(apps.map((app) => [app.id, app])),
    signInApps: enabled.filter((app) => app.signIn !== undefined),
    threadApps: enabled.filter(servesThreads),
  };
}

function servesThreads(app: ConnectedApp): app is ThreadApp {
  return app.apiBaseUrl !== undefined;
}
