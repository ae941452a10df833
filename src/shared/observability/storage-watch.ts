/** Watches whether the storage takes writes: at intervals, without any request, and whenever `/readyz` asks. */

/**
 * From the start of a probe to that of the next, so that a storage that was replaced is noticed within ten seconds, even if the probe
 * takes seconds.
 */
const PROBE_MS = 9_000;
/** After the end of a probe while the storage is lost, so that its return is noticed soon. */
const LOST_PROBE_MS = 1_000;

/** Why this process refuses a storage that responds: it is not the one of the start, or a start would be refused. */
export const STORAGE_REFUSALS = ['replaced', 'unfit'] as const;

/** Why the storage takes no writes. `disk`: the data directory is full or cannot be written. */
export type StorageFault = {
  reason: 'storage' | 'disk' | (typeof STORAGE_REFUSALS)[number];
  /** The address or the file, without credentials. */
  storage: string;
  /** For the log and `/readyz`: names a code, and repeats no text of another program. */
  detail: string;
};

export interface StorageEvents {
  storageLost(facts: StorageFault): void;
  /** @param facts `seconds`: for how long it was lost */
  storageBack(facts: { storage: string; seconds: number }): void;
}

export interface StorageWatch {
  /** Probes now, which postpones the next probe of the timer. */
  check(): Promise<StorageFault | undefined>;
  /** Undefined if the storage took the last write. */
  fault(): StorageFault | undefined;
  close(): Promise<void>;
}

/**
 * Logs one line when the storage is lost, one more if the reason becomes another, and one when it is back. The first
 * probe starts at once; until it ends, the storage counts as up, because the process has just opened it.
 * @param parts `probe`: returns why the storage takes no writes, or undefined if it does. Must not reject
 */
export function watchStorage(parts: {
  probe: () => Promise<StorageFault | undefined>;
  events: StorageEvents;
  monotonicClock: () => number;
}): StorageWatch {
  const { probe, events, monotonicClock } = parts;
  let lost: { fault: StorageFault; since: number } | undefined;
  let timer: NodeJS.Timeout | undefined;
  let started = 0;
  let newest = 0;
  let stopped = false;

  const note = (fault: StorageFault | undefined): void => {
    if (fault) {
      if (fault.reason !== lost?.fault.reason) events.storageLost(fault);
      lost = { fault, since: lost?.since ?? monotonicClock() };
    } else if (lost) {
      const seconds = Math.round((monotonicClock() - lost.since) / 1_000);
      events.storageBack({ storage: lost.fault.storage, seconds });
      lost = undefined;
    }
  };

  const check = async (): Promise<StorageFault | undefined> => {
    started += 1;
    const turn = started;
    const startedAt = monotonicClock();
    const fault = await probe();
    // A probe that ends after a later one says nothing new.
    if (stopped || turn < newest) return fault;
    newest = turn;
    note(fault);
    clearTimeout(timer);
    const rest = startedAt + PROBE_MS - monotonicClock();
    timer = setTimeout(check, lost ? LOST_PROBE_MS : Math.max(rest, LOST_PROBE_MS)).unref();
    return fault;
  };

  void check();
  return {
    check,
    fault: () => lost?.fault,
    async close() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
