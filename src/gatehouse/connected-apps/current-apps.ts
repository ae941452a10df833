/** The list of connected apps in memory, and the app that a route uses. */
import { AppError } from '../../shared/errors.ts';
import { allowedApiBaseUrl } from '../../shared/provider/api-base-url.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { distinctNames } from '../../shared/text.ts';

/** An app whose platform serves threads. */
export type ThreadApp = ConnectedApp & { readonly apiBaseUrl: string };

/** Returns the URL below which the platform is called. @param grantedUrl the API base URL of the grant */
export const platformUrlOf = (app: ThreadApp, grantedUrl?: string): string =>
  (allowedApiBaseUrl(app, grantedUrl) ?? app.apiBaseUrl).replace(/\/+$/, '');

/** Returns the URL of the current thread. @param grantedUrl as in `platformUrlOf` */
export const threadUrlOf = (app: ThreadApp, grantedUrl?: string): string =>
  platformUrlOf(app, grantedUrl) + app.threadPath;

/** Each call reads the current list: administrators change it while requests run. */
export interface CurrentApps {
  /** Includes disabled apps. */
  list(): readonly ConnectedApp[];
  /** Also finds a disabled app, whose connections can still be listed and ended: check before you use the app. */
  find(id: string): ConnectedApp | undefined;
  /** The apps by the names that pages show: a name that several apps have is followed by the id. */
  named(): readonly { id: string; name: string }[];
  /** Returns the name that pages show; the id of an app that no longer exists. */
  nameOf(id: string): string;
  /** Lists the apps that every user may sign in with first. */
  signInApps(): ConnectedApp[];
  threadApps(): ThreadApp[];
  /**
   * Returns the app for a thread request that names no app: the app that the user signed in with, otherwise the only
   * app that serves threads. Undefined if there is neither.
   */
  usualThreadApp(signInAppId: string | undefined): ThreadApp | undefined;
  /**
   * Returns the named app, otherwise the usual one.
   * @throws AppError `invalid_request` if there is no usual app, `not_found` if the named app is unknown or disabled
   */
  threadApp(id: string | undefined, signInAppId?: string): ThreadApp;
}

export interface ReplaceableApps extends CurrentApps {
  /** An unchanged app must stay the same object, since caches use it as their key. */
  replace(changed: readonly ConnectedApp[]): void;
}

export function createCurrentApps(apps: readonly ConnectedApp[]): ReplaceableApps {
  let current = snapshotOf(apps);
  const usualThreadApp = (signInAppId: string | undefined): ThreadApp | undefined => {
    const { threadApps } = current;
    const onlyApp = threadApps.length === 1 ? threadApps[0] : undefined;
    return threadApps.find(({ id }) => id === signInAppId) ?? onlyApp;
  };
  return {
    replace(changed) {
      current = snapshotOf(changed);
    },
    list: () => current.apps,
    find: (id) => current.byId.get(id),
    named: () => current.named,
    nameOf: (id) => current.names.get(id) ?? id,
    signInApps: () => current.signInApps,
    threadApps: () => current.threadApps,
    usualThreadApp,
    threadApp(id, signInAppId) {
      const { threadApps, byId } = current;
      if (id !== undefined) {
        const namedApp = threadApps.find((app) => app.id === id);
        if (namedApp) return namedApp;
        const detail = byId.get(id)?.disabled
          ? 'An administrator has disabled this connected app.'
          : 'There is no connected app with this id that serves threads.';
        throw new AppError('not_found', { detail });
      }
      const usualApp = usualThreadApp(signInAppId);
      if (usualApp) return usualApp;
      const nameOne = 'Several connected apps serve threads: name one with "app".';
      const detail = threadApps.length > 0 ? nameOne : 'No connected app serves threads.';
      throw new AppError('invalid_request', { detail });
    },
  };
}

function snapshotOf(apps: readonly ConnectedApp[]) {
  const enabled = apps.filter((app) => !app.disabled);
  const named = distinctNames(apps);
  return {
    apps,
    byId: new Map(apps.map((app) => [app.id, app])),
    named,
    names: new Map(named.map(({ id, name }) => [id, name])),
    signInApps: [
      ...enabled.filter(({ signIn }) => signIn?.allow === 'everyone'),
      ...enabled.filter(({ signIn }) => signIn && signIn.allow !== 'everyone'),
    ],
    threadApps: enabled.filter((app): app is ThreadApp => app.apiBaseUrl !== undefined),
  };
}
