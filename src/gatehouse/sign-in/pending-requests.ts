/** Stores pending authorization requests by browser secret and state: at most 10 each, for 10 minutes, taken once. */
import type { ProviderHints } from '../../shared/http/provider-hints.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { SignInDemand } from '../../shared/provider/sign-in-demand.ts';
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
  /** The hints of the link or form, if there are any. */
  hints?: ProviderHints | undefined;
  /** Id of the attempt whose callback came again and started this one over. */
  startedOverFrom?: string | undefined;
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
      /** What the platform demands of this sign-in. */
      demand?: SignInDemand | undefined;
      /** An administrator tries the app: the browser goes to the record of the attempt, even after a failure. */
      trial?: boolean | undefined;
    }
);

/** A user has this long to come back from the provider. */
export const PENDING_REQUEST_SECONDS = 600;
const MAX_PENDING = 10;
const MAX_SPENT = 10;
const MAX_OTHER_NAMES = 9;

/**
 * A pending request as it is stored. `sealed` has the hints (R110), the platform's demand, and the paths that contain
 * the secret of a connect link. `spentAt` is set once its callback has come, in milliseconds since the epoch.
 * `otherNames` has the names of further states, each of which can take it: one for each time that the same callback
 * started over while this request was pending.
 */
type StoredRequest = PendingRequest & { sealed?: string; spentAt?: number; otherNames?: readonly string[] };
type RequestsByState = Record<string, StoredRequest>;

/** Spent requests have a limit of their own, so they displace no pending one. */
interface Loaded {
  pending: RequestsByState;
  spent: RequestsByState;
  version: number;
}

export interface PendingRequests {
  /**
   * Stores a pending request; the oldest ones of the secret beyond the limit are dropped (R6). If the same callback has
   * started over before, and that request is still pending, it gets this state as well and nothing else is stored.
   * @param options `isNewBrowser`: the browser secret was created just now, so nothing is stored under it. `record`:
   *   the writes of the sign-in record, made in the same write
   */
  put(
    browserSecret: string,
    state: string,
    pendingRequest: PendingRequest,
    options?: { isNewBrowser?: boolean; record?: readonly Write[] },
  ): Promise<void>;

  /**
   * Marks the pending request as spent, and returns it. If several callers take it at once, one receives it (R9): to the
   * others it `isSpent`. A spent one is stored for ten minutes, unless ten newer ones are.
   */
  take(browserSecret: string, state: string): Promise<{ pendingRequest: PendingRequest; isSpent: boolean } | undefined>;

  /** Like `take`, but takes nothing. */
  find(browserSecret: string, state: string): Promise<{ pendingRequest: PendingRequest; isSpent: boolean } | undefined>;
}

/**
 * One record holds all pending requests of a browser secret, which bounds their number. It contains no secret: PKCE
 * verifier and nonce are derived from the browser's cookie (shared/provider/nonce-and-verifier.ts); hints, demands, and
 * paths with the secret of a connect link, are sealed.
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
    const demand = pendingRequest.purpose === 'connect' ? pendingRequest.demand : undefined;
    const { hints } = pendingRequest;
    if ([returnTo, linkPath, demand, hints].every((value) => value === undefined)) return pendingRequest;
    const sealed = await sealedJson.seal({ returnTo, linkPath, demand, hints }, key);
    const rest = { ...pendingRequest, linkPath: undefined, demand: undefined, hints: undefined, sealed };
    return returnTo === undefined ? rest : { ...rest, returnTo: home };
  };

  const open = async (
    { sealed, spentAt, otherNames, ...request }: StoredRequest,
    key: string,
  ): Promise<PendingRequest> =>
    sealed === undefined ? request : { ...request, ...(await sealedJson.open<object>(sealed, key)) };

  const load = async (key: string): Promise<Loaded> => {
    const record = await store.get(key);
    if (!record) return { pending: {}, spent: {}, version: 0 };
    const horizon = clock() - PENDING_REQUEST_SECONDS * 1000;
    const requests = Object.entries(JSON.parse(record.value) as RequestsByState);
    const unexpired = requests.filter(([, request]) => timeOf(request) > horizon);
    return {
      pending: Object.fromEntries(unexpired.filter(([, { spentAt }]) => spentAt === undefined)),
      spent: Object.fromEntries(unexpired.filter(([, { spentAt }]) => spentAt !== undefined)),
      version: record.version,
    };
  };

  const writeOf = (key: string, { pending, spent, version }: Loaded): Write => {
    const value = JSON.stringify({ ...spent, ...pending });
    return { put: key, value, ifVersion: version, lifetimeSeconds: PENDING_REQUEST_SECONDS };
  };

  return {
    async put(browserSecret, state, pendingRequest, { isNewBrowser = false, record = [] } = {}) {
      const key = keys.pendingRequests(browserSecret);
      const stored = await seal(pendingRequest, key);
      const { startedOverFrom } = pendingRequest;
      const add = async (loaded: Loaded, otherWrites: readonly Write[]): Promise<'added' | 'named' | undefined> => {
        const earlier =
          startedOverFrom === undefined
            ? undefined
            : Object.entries(loaded.pending).find(([, request]) => request.startedOverFrom === startedOverFrom);
        const pending = earlier
          ? { ...loaded.pending, [earlier[0]]: withOtherName(earlier[1], nameOf(state)) }
          : { ...newest(loaded.pending, MAX_PENDING - 1), [nameOf(state)]: stored };
        const writes = [writeOf(key, { ...loaded, pending }), ...(earlier ? [] : otherWrites)];
        if ((await store.write(writes)) === undefined) return undefined;
        return earlier ? 'named' : 'added';
      };
      if (await add(isNewBrowser ? { pending: {}, spent: {}, version: 0 } : await load(key), record)) return;
      let result: 'added' | 'named' | undefined;
      while (!result) result = await add(await load(key), []);
      // The record gets its own write: if a record with the same reference exists, this attempt has none.
      if (result === 'added' && record.length > 0) await store.write(record);
    },

    async take(browserSecret, state) {
      const key = keys.pendingRequests(browserSecret);
      for (;;) {
        const { pending, spent, version } = await load(key);
        const name = nameIn(pending, state);
        const { [name]: request, ...otherPending } = pending;
        if (!request) {
          const spentRequest = spent[nameIn(spent, state)];
          return spentRequest && { pendingRequest: await open(spentRequest, key), isSpent: true };
        }
        const nextSpent = { ...newest(spent, MAX_SPENT - 1), [name]: { ...request, spentAt: clock() } };
        // A caller that loses the race reads again, and finds a spent request.
        if (await store.write([writeOf(key, { pending: otherPending, spent: nextSpent, version })]))
          return { pendingRequest: await open(request, key), isSpent: false };
      }
    },

    async find(browserSecret, state) {
      const key = keys.pendingRequests(browserSecret);
      const { pending, spent } = await load(key);
      const requests = { ...spent, ...pending };
      const request = requests[nameIn(requests, state)];
      return request && { pendingRequest: await open(request, key), isSpent: request.spentAt !== undefined };
    },
  };
}

const timeOf = ({ startedAt, spentAt = startedAt }: StoredRequest) => spentAt;

function newest(requests: RequestsByState, count: number): RequestsByState {
  const newestFirst = Object.entries(requests).sort(([, left], [, right]) => timeOf(right) - timeOf(left));
  return Object.fromEntries(newestFirst.slice(0, count));
}

const withOtherName = (request: StoredRequest, name: string): StoredRequest => ({
  ...request,
  otherNames: [...(request.otherNames ?? []), name].slice(-MAX_OTHER_NAMES),
});

/** Returns the name under which the request of this state is stored. */
function nameIn(requests: RequestsByState, state: string): string {
  const name = nameOf(state);
  return Object.keys(requests).find((stored) => requests[stored]?.otherNames?.includes(name)) ?? name;
}

/** Short, because requests without a session store this name (R91), and long enough for a browser's 10 requests. */
const nameOf = (state: string): string => hashOf(state).slice(0, 8);

/** Returns a hash of registration and scopes: its 132 bits take less space than these (R91). */
export function fingerprintOf(app: Parameters<typeof registrationOf>[0] & Pick<ConnectedApp, 'scopes'>): string {
  return hashOf(JSON.stringify([registrationOf(app), app.scopes])).slice(0, 22);
}
