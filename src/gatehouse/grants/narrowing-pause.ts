/** The pause between two refreshes that one service causes for narrowed tokens of one grant (R135). */
import { keys } from '../../shared/storage/keys.ts';
import type { Store, StoredRecord } from '../../shared/storage/store.ts';

const PAUSE_SECONDS = 30;
/** No refresh takes longer: it waits for its turn for 30 s, and the call has 15 s. */
const MAX_REFRESH_SECONDS = 60;

/** When the refresh started, or has ended. */
type Pause = { startedAt: number } | { endedAt: number };

export interface NarrowingPause {
  /** Returns the seconds until the service may cause another refresh of this grant; 0 if it may now. */
  secondsLeft(): Promise<number>;

  /**
   * Refreshes, unless the service has caused a refresh of this grant within the pause. Returns undefined then. Only a
   * refresh that calls the provider counts.
   */
  refresh<Result extends { calledProvider: boolean }>(work: () => Promise<Result>): Promise<Result | undefined>;
}

export function createNarrowingPauses(store: Pick<Store, 'get' | 'write'>, clock: () => number) {
  return (userId: string, appId: string, relayTokenId: string): NarrowingPause => {
    const key = keys.narrowing(userId, appId, relayTokenId);

    const begin = async (): Promise<boolean> => {
      const stored = await store.get(key);
      if (secondsLeftOf(stored, clock()) > 0) return false;
      const value = JSON.stringify({ startedAt: clock() } satisfies Pause);
      const ifVersion = stored?.version ?? 0;
      const put = { put: key, value, ifVersion, lifetimeSeconds: MAX_REFRESH_SECONDS };
      return (await store.write([put])) !== undefined;
    };

    /** Counts the pause from now, since the refresh may have waited for others. */
    const restart = async (): Promise<void> => {
      const value = JSON.stringify({ endedAt: clock() } satisfies Pause);
      await store.write([{ put: key, value, lifetimeSeconds: PAUSE_SECONDS }]);
    };

    const end = async (): Promise<void> => {
      await store.write([{ delete: key }]);
    };

    return {
      secondsLeft: async () => secondsLeftOf(await store.get(key), clock()),

      async refresh(work) {
        if (!(await begin())) return undefined;
        let calledProvider = false;
        try {
          const result = await work();
          ({ calledProvider } = result);
          return result;
        } finally {
          // The provider's response counts, even if the storage does not respond.
          await (calledProvider ? restart() : end()).catch(() => undefined);
        }
      },
    };
  };
}

/**
 * While the refresh runs, the whole pause is still to come. A pause that began further in the future than it lasts is
 * from before a step back of the clock; less far, from a process whose clock is ahead.
 */
function secondsLeftOf(stored: StoredRecord | undefined, now: number): number {
  if (!stored) return 0;
  const pause: Pause = JSON.parse(stored.value);
  const isRunning = 'startedAt' in pause;
  const age = (now - (isRunning ? pause.startedAt : pause.endedAt)) / 1000;
  if (Math.abs(age) >= (isRunning ? MAX_REFRESH_SECONDS : PAUSE_SECONDS)) return 0;
  return isRunning ? PAUSE_SECONDS : Math.min(PAUSE_SECONDS, Math.ceil(PAUSE_SECONDS - age));
}
