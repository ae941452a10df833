/** Keeps where a failed attempt was to lead, for its page when that is shown again after its request was dropped. */

import { keys } from '../../shared/storage/keys.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_SECONDS } from '../../shared/time.ts';
import { RECORD_DAYS } from '../sign-in-record/record-trim.ts';
import { failureContextOf } from './fail.ts';
import type { PendingRequest } from './pending-requests.ts';

export type KeptReturn = Pick<ReturnType<typeof failureContextOf>, 'returnTo' | 'linkPath'>;

export interface KeptReturns {
  /** Keeps it as long as the record of the attempt, and sealed: a path may be personal, or have a secret. Never rejects. */
  keep(pendingRequest: PendingRequest): Promise<void>;
  find(attempt: string): Promise<KeptReturn | undefined>;
}

export function createKeptReturns({ store, sealedJson }: { store: Store; sealedJson: SealedJson }): KeptReturns {
  return {
    async keep(pendingRequest) {
      const { returnTo, linkPath } = failureContextOf(pendingRequest);
      const key = keys.signInReturn(pendingRequest.attempt);
      try {
        const value = await sealedJson.seal({ returnTo, linkPath } satisfies KeptReturn, key);
        await store.write([{ put: key, value, lifetimeSeconds: RECORD_DAYS * DAY_SECONDS }]);
      } catch {
        // Without it, the page that is shown again leads to the usual place.
      }
    },
    async find(attempt) {
      const key = keys.signInReturn(attempt);
      const stored = await store.get(key);
      return stored && sealedJson.open<KeptReturn>(stored.value, key);
    },
  };
}
