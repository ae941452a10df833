/** Owns pending authorization requests: kept sealed by browser and state, bounded in time and number, taken once. */
import { hashOf, keys } from '../storage/keys.ts';
import { SealError, type Sealer } from '../storage/sealed.ts';
import type { Store } from '../storage/store.ts';

export interface Transaction {
  purpose: 'sign_in' | 'connect';
  appId: string;
  issuer: string;
  redirectUri: string;
  scopes: string[];
  nonce: string;
  codeVerifier: string;
  returnTo: string;
  /** With a step-up: the `acr` that has to come back, and how long ago the person may have proved it. */
  acrValues?: string | undefined;
  maxAgeSeconds?: number | undefined;
  /** Its sign-in record; absent where a process of before made it. */
  attempt?: { id: string; startedAt: number } | undefined;
  /** Who was signed in when it began; for `connect` the same must be signed in when it ends (R11). */
  userId: string | undefined;
}

export interface Transactions {
  /**
   * Keeps one; the browser's oldest makes room where there are too many (R6).
   * @param isNew the browser got its id just now, so that nothing can be there
   */
  put(browserId: string, state: string, transaction: Transaction, isNew?: boolean): Promise<void>;
  /** Answers it to one caller only, however many ask at once (R9). */
  take(browserId: string, state: string): Promise<Transaction | undefined>;
}

/** Seconds within which a person has to come back from the provider. */
export const TRANSACTION_SECONDS = 600;
const MOST_PENDING = 10;

type Pending = Record<string, { startedAt: number; transaction: Transaction }>;

/** All of one browser's lie in one record, so that their number is bounded and nothing outlives them. */
export function createTransactions(parts: { store: Store; sealer: Sealer; clock: () => number }): Transactions {
  const { store, sealer, clock } = parts;

  const load = async (key: string): Promise<{ pending: Pending; version: number }> => {
    const record = await store.get(key);
    if (!record) return { pending: {}, version: 0 };
    const opened = await sealer.open(record.value, key).catch((error: unknown) => {
      if (error instanceof SealError) return '{}';
      throw error;
    });
    // What cannot be read (its key was given up) is no request that anybody could finish: the browser begins anew.
    const all = JSON.parse(opened) as Pending;
    const horizon = clock() - TRANSACTION_SECONDS * 1000;
    const alive = Object.entries(all).filter(([, { startedAt }]) => startedAt > horizon);
    return { pending: Object.fromEntries(alive), version: record.version };
  };

  const save = async (key: string, pending: Pending, ifVersion: number): Promise<boolean> => {
    if (Object.keys(pending).length === 0) return store.write([{ delete: key, ifVersion }]);
    const value = await sealer.seal(JSON.stringify(pending), key);
    return store.write([{ put: key, value, ifVersion, lifetimeSeconds: TRANSACTION_SECONDS }]);
  };

  return {
    async put(browserId, state, transaction, isNew = false) {
      const key = keys.transactions(browserId);
      for (let first = true; ; first = false) {
        const { pending, version } = isNew && first ? { pending: {}, version: 0 } : await load(key);
        const newest = Object.entries(pending)
          .sort(([, left], [, right]) => right.startedAt - left.startedAt)
          .slice(0, MOST_PENDING - 1);
        const next = { ...Object.fromEntries(newest), [hashOf(state)]: { startedAt: clock(), transaction } };
        if (await save(key, next, version)) return;
      }
    },

    async take(browserId, state) {
      const key = keys.transactions(browserId);
      for (;;) {
        const { pending, version } = await load(key);
        const { [hashOf(state)]: taken, ...rest } = pending;
        if (!taken) return undefined;
        // Whoever loses the race reads again, and finds it gone.
        if (await save(key, rest, version)) return taken.transaction;
      }
    },
  };
}
