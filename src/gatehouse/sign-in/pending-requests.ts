/** Stores pending authorization requests by browser and state: at most 10 per browser, for 10 minutes, taken once. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { hashOf, keys } from '../../shared/storage/keys.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store, Write } from '../../shared/storage/store.ts';
import { registrationOf } from '../connected-apps/registration.ts';
import { CONNECT_LINK_PREFIX } from '../grants/connect-links.ts';

export type PendingRequest = {
  appId: string;
  /** `fingerprintOf(app)`: the app must not change while the user is at the provider. */
  appFingerprint: string;
  /** The scopes that the user chose; undefined for all scopes of the app. */
  scopes?: readonly string[] | undefined;
  returnTo: string;
  /** The sign-in must be the stronger one that the administration requires. */
  stepUp?: boolean | undefined;
  /** Id of the attempt in the sign-in record. */
  attempt: string;
  /** Milliseconds since the epoch. */
  startedAt: number;
} & (
  | { purpose: 'sign_in' }
  /** The same user must be signed in at the callback (R11). */
  | {
      purpose: 'connect';
      userId: string;
      /** Id of the connect link. */
      link?: string | undefined;
      /** Local path of the page of the link, where the user can try again. */
      linkPath?: string | undefined;
      /** An administrator tries the app: the browser goes to the record of the attempt, even after a failure. */
      trial?: boolean | undefined;
    }
);

/** A user has this long to come back from the provider. */
export const PENDING_REQUEST_SECONDS = 600;
const MAX_PENDING = 10;

/** A pending request as it is stored. `sealed` has the paths that contain the secret of a connect link. */
type StoredRequest = PendingRequest & { sealed?: string };
type PendingByState = Record<string, StoredRequest>;

interface Loaded {
  pending: PendingByState;
  version: number;
}

export interface PendingRequests {
  /**
   * Stores a pending request; the browser's oldest ones beyond the limit are dropped (R6).
   * @param options `isNewBrowser`: the browser secret was created just now, so nothing is stored under it. `record`:
   *   the writes of the sign-in record, made in the same write
   */
  put(
    browserSecret: string,
    state: string,
    pendingRequest: PendingRequest,
    options?: { isNewBrowser?: boolean; record?: readonly Write[] },
  ): Promise<void>;

  /** Removes and returns the pending request. If several callers take it at once, one receives it (R9). */
  take(browserSecret: string, state: string): Promise<PendingRequest | undefined>;
}

/**
 * One record holds all pending requests of a browser, which bounds their number. It contains no secret: PKCE verifier
 * and nonce are derived from the browser's cookie (shared/provider/nonce-and-verifier.ts), and paths with the secret of
 * a connect link are sealed.
 * @param parts `home`: the return path if a sealed one cannot be opened
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
    const all = JSON.parse(record.value) as PendingByState;
    const horizon = clock() - PENDING_REQUEST_SECONDS * 1000;
    const unexpiredEntries = Object.entries(all).filter(([, { startedAt }]) => startedAt > horizon);
    return { pending: Object.fromEntries(unexpiredEntries), version: record.version };
  };

  const writeOf = (key: string, pending: PendingByState, ifVersion: number): Write =>
    Object.keys(pending).length === 0
      ? { delete: key, ifVersion }
      : { put: key, value: JSON.stringify(pending), ifVersion, lifetimeSeconds: PENDING_REQUEST_SECONDS };

  return {
    async put(browserSecret, state, pendingRequest, { isNewBrowser = false, record = [] } = {}) {
      const key = keys.pendingRequests(browserSecret);
      const stored = await seal(pendingRequest, key);
      const add = async ({ pending, version }: Loaded, otherWrites: readonly Write[]) => {
        const newestEntries = Object.entries(pending)
          .sort(([, left], [, right]) => right.startedAt - left.startedAt)
          .slice(0, MAX_PENDING - 1);
        const next = { ...Object.fromEntries(newestEntries), [nameOf(state)]: stored };
        return (await store.write([writeOf(key, next, version), ...otherWrites])) !== undefined;
      };
      if (await add(isNewBrowser ? { pending: {}, version: 0 } : await load(key), record)) return;
      let isAdded = false;
      while (!isAdded) isAdded = await add(await load(key), []);
      // The record gets its own write: if a record with the same reference exists, this attempt has none.
      if (record.length > 0) await store.write(record);
    },

    async take(browserSecret, state) {
      const key = keys.pendingRequests(browserSecret);
      for (;;) {
        const { pending, version } = await load(key);
        const { [nameOf(state)]: pendingRequest, ...rest } = pending;
        if (!pendingRequest) return undefined;
        // A caller that loses the race reads again and finds nothing.
        if (await store.write([writeOf(key, rest, version)])) return open(pendingRequest, key);
      }
    },
  };
}

/** Short, because requests without a session store this name (R91), and long enough for a browser's 10 requests. */
const nameOf = (state: string): string => hashOf(state).slice(0, 8);

/** Returns a hash of registration and scopes: its 132 bits take less space than these (R91). */
export function fingerprintOf(app: Parameters<typeof registrationOf>[0] & Pick<ConnectedApp, 'scopes'>): string {
  return hashOf(JSON.stringify([registrationOf(app), app.scopes])).slice(0, 22);
}
