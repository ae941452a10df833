/** Keeps where an attempt was to lead, for a callback that comes again after its request was dropped. */

import { keys } from '../../shared/storage/keys.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store, Write } from '../../shared/storage/store.ts';
import { DAY_SECONDS } from '../../shared/time.ts';
import { RECORD_DAYS } from '../sign-in-record/record-trim.ts';
import { failureContextOf } from './fail.ts';
import type { PendingRequest } from './pending-requests.ts';

export type KeptReturn = Pick<ReturnType<typeof failureContextOf>, 'returnTo' | 'linkPath'>;

export interface KeptReturns {
  /**
   * Returns the write that keeps it as long as the record of the attempt; none for the usual place. It is sealed, since
   * a path may be personal, or have a secret.
   */
  writesFor(pendingRequest: PendingRequest): Promise<Write[]>;
  find(attempt: string): Promise<KeptReturn | undefined>;
}

/** @param parts `home`: local path of the start page */
export function createKeptReturns(parts: { store: Store; sealedJson: SealedJson; home: string }): KeptReturns {
  const { store, sealedJson, home } = parts;
  return {
    async writesFor(pendingRequest) {
      const { appId, purpose, returnTo, linkPath } = failureContextOf(pendingRequest);
      const isTrial = pendingRequest.purpose === 'connect' && pendingRequest.trial;
      if (isTrial || (linkPath === undefined && returnTo === usualReturn(home, purpose, appId))) return [];
      const key = keys.signInReturn(pendingRequest.attempt);
      const value = await sealedJson.seal({ returnTo, linkPath } satisfies KeptReturn, key);
      return [{ put: key, value, lifetimeSeconds: RECORD_DAYS * DAY_SECONDS }];
    },
    async find(attempt) {
      const key = keys.signInReturn(attempt);
      const stored = await store.get(key);
      return stored && sealedJson.open<KeptReturn>(stored.value, key);
    },
  };
}

export const usualReturn = (home: string, purpose: PendingRequest['purpose'] | 'unknown', appId: string): string =>
  purpose === 'connect' ? `${home}connections/${appId}` : home;
