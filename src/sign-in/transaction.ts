/** Owns pending authorization requests: kept by browser and state, bounded in time and number, taken once. */
import { hashOf, keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

export interface Transaction {
  purpose: 'sign_in' | 'connect';
  appId: string;
  issuer: string;
  redirectUri: string;
  scopes: string[];
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

/**
 * All of one browser's lie in one record, so that their number is bounded and nothing outlives them. It holds no secret: what
 * proves a request follows from the browser's cookie (connected-apps/authorization-proofs.ts).
 */
export function createTransactions(parts: { store: Store; clock: () => number }): Transactions {
  const { store, clock } = parts;

  const load = async (key: string): Promise<{ pending: Pending; version: number }> => {
    const record = await store.get(key);
    if (!record) return { pending: {}, version: 0 };
    // A process of before sealed them, and kept what proves them there: nobody can finish those, and the browser begins anew.
    const all: Pending = record.value.startsWith('{') ? JSON.parse(record.value) : {};
    const horizon = clock() - TRANSACTION_SECONDS * 1000;
    const alive = Object.entries(all).filter(([, { startedAt }]) => startedAt > horizon);
    return { pending: Object.fromEntries(alive), version: record.version };
  };

  const save = (key: string, pending: Pending, ifVersion: number): Promise<boolean> =>
    Object.keys(pending).length === 0
      ? store.write([{ delete: key, ifVersion }])
      : store.write([{ put: key, value: JSON.stringify(pending), ifVersion, lifetimeSeconds: TRANSACTION_SECONDS }]);

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
