/** Pending authorization requests: stored by browser and state, bounded in time and number, taken once. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { hashOf, keys } from '../../shared/storage/keys.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store, Write } from '../../shared/storage/store.ts';
import { registrationOf } from '../connected-apps/registration.ts';
import { CONNECT_LINK_PREFIX } from '../grants/connect-links.ts';

export type PendingRequest = {
  appId: string;
  /** `fingerprintOf` the app that the code and its verifier are for: it must not change while the user is at the provider. */
  appFingerprint: string;
  /** Of the app's scopes, where the user chose some. */
  scopes?: readonly string[] | undefined;
  returnTo: string;
  /** The stronger sign-in of the administration was requested. */
  stepUp?: boolean | undefined;
  /** Id of its sign-in record. */
  attempt: string;
  /** Milliseconds since the epoch. */
  startedAt: number;
} & (
  | { purpose: 'sign_in' }
  /** The same user must be signed in when it ends (R11). */
  | {
      purpose: 'connect';
      userId: string;
      /** The id of the connect link that is used. */
      link?: string | undefined;
      /** The local path of its page, where a failed attempt can be repeated. */
      linkPath?: string | undefined;
      /** An administrator tries the app: the attempt ends at its record, also if it fails. */
      trial?: boolean | undefined;
    }
);

/** Seconds within which a user has to come back from the provider. */
export const PENDING_REQUEST_SECONDS = 600;
const MAX_PENDING = 10;

/** In the store. `sealed`: what would reveal the secret of a connect link. */
type StoredRequest = PendingRequest & { sealed?: string };
type Pending = Record<string, StoredRequest>;

interface Loaded {
  pending: Pending;
  version: number;
}

export interface PendingRequests {
  /**
   * Stores a pending request; it replaces the browser's oldest where there are too many (R6).
   * @param options `isNewBrowser`: the browser received its secret just now, so nothing is stored under it. `record`: the steps
   *   of its sign-in record, for the same write
   */
  put(
    browserSecret: string,
    state: string,
    pendingRequest: PendingRequest,
    options?: { isNewBrowser?: boolean; record?: readonly Write[] },
  ): Promise<void>;

  /** Removes the pending request and returns it to one caller only, however many call at once (R9). */
  take(browserSecret: string, state: string): Promise<PendingRequest | undefined>;
}

/**
 * One record holds all pending requests of a browser, so that their number is bounded. It holds no secret: PKCE verifier and
 * nonce are derived from the browser's cookie (shared/provider/nonce-and-verifier.ts), and paths with the secret of a connect
 * link are sealed.
 * @param parts `home`: where the browser goes if such a path cannot be opened
 */
export function createPendingRequests(parts: {
  store: Store;
  sealedJson: SealedJson;
  home: string;
  clock: () => number;
}): PendingRequests {
  const { store, sealedJson, home, clock } = parts;

  const seal = async (pendingRequest: PendingRequest, key: string): Promise<StoredRequest> => {
    const returnTo = pendingRequest.returnTo.includes(CONNECT_LINK_PREFIX) ? pendingRequest.returnTo : undefined;
    const linkPath = pendingRequest.purpose === 'connect' ? pendingRequest.linkPath : undefined;
    if (returnTo === undefined && linkPath === undefined) return pendingRequest;
    const sealed = await sealedJson.seal({ returnTo, linkPath }, key);
    const rest = { ...pendingRequest, linkPath: undefined, sealed };
    return returnTo === undefined ? rest : { ...rest, returnTo: home };
  };

  const open = async ({ sealed, ...pendingRequest }: StoredRequest, key: string): Promise<PendingRequest> =>
    sealed === undefined ? pendingRequest : { ...pendingRequest, ...(await sealedJson.open<object>(sealed, key)) };

  const load = async (key: string): Promise<Loaded> => {
    const record = await store.get(key);
    if (!record) return { pending: {}, version: 0 };
    const all = JSON.parse(record.value) as Pending;
    const horizon = clock() - PENDING_REQUEST_SECONDS * 1000;
    const alive = Object.entries(all).filter(([, { startedAt }]) => startedAt > horizon);
    return { pending: Object.fromEntries(alive), version: record.version };
  };

  const stepOf = (key: string, pending: Pending, ifVersion: number): Write =>
    Object.keys(pending).length === 0
      ? { delete: key, ifVersion }
      : { put: key, value: JSON.stringify(pending), ifVersion, lifetimeSeconds: PENDING_REQUEST_SECONDS };

  return {
    async put(browserSecret, state, pendingRequest, { isNewBrowser = false, record = [] } = {}) {
      const key = keys.pendingRequests(browserSecret);
      const stored = await seal(pendingRequest, key);
      const add = async ({ pending, version }: Loaded, beside: readonly Write[]) => {
        const newest = Object.entries(pending)
          .sort(([, left], [, right]) => right.startedAt - left.startedAt)
          .slice(0, MAX_PENDING - 1);
        const next = { ...Object.fromEntries(newest), [nameOf(state)]: stored };
        return (await store.write([stepOf(key, next, version), ...beside])) !== undefined;
      };
      if (await add(isNewBrowser ? { pending: {}, version: 0 } : await load(key), record)) return;
      let isAdded = false;
      while (!isAdded) isAdded = await add(await load(key), []);
      // Apart, since the record may have been the reason: another request has the same reference. Then this one has none.
      if (record.length > 0) await store.write(record);
    },

    async take(browserSecret, state) {
      const key = keys.pendingRequests(browserSecret);
      for (;;) {
        const { pending, version } = await load(key);
        const { [nameOf(state)]: taken, ...rest } = pending;
        if (!taken) return undefined;
        // A caller that loses the race reads again and finds no pending request.
        if (await store.write([stepOf(key, rest, version)])) return open(taken, key);
      }
    },
  };
}

/** Short, because a request without a session can store one (R91), and enough to tell a browser's ten requests apart. */
const nameOf = (state: string): string => hashOf(state).slice(0, 8);

/** Of registration and scopes: 132 bits, which are shorter than what they stand for (R91). */
export function fingerprintOf(app: Parameters<typeof registrationOf>[0] & Pick<ConnectedApp, 'scopes'>): string {
  return hashOf(JSON.stringify([registrationOf(app), app.scopes])).slice(0, 22);
}
