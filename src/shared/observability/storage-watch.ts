/** Watches whether the storage accepts writes: at intervals, and on each request of `/readyz`. */

/**
 * The time from the start of a probe to the start of the next one, so that a replaced storage is noticed within ten
 * seconds, even if probes take seconds.
 */
const PROBE_MS = 9_000;
/** The pause between probes while the storage is lost, so that its return is noticed soon. */
const LOST_PROBE_MS = 1_000;

/** The reasons to refuse a storage that responds: it is not the storage of the start, or a start would refuse it. */
export const STORAGE_REFUSALS = ['replaced', 'unfit'] as const;

/** The reason why the storage accepts no writes. `disk`: the data directory is full or cannot be written. */
export type StorageFault = {
  reason: 'storage' | 'disk' | (typeof STORAGE_REFUSALS)[number];
  /** The address or the file, without credentials. */
  storage: string;
  /** A code for the log and `/readyz`, without any text of another program. */
  detail: string;
};

export interface StorageEvents {
  storageLost(facts: StorageFault): void;
  /** @param facts `seconds`: the time for which the storage was lost */
  storageBack(facts: { storage: string; seconds: number }): void;
}

export interface StorageWatch {
  /** Probes now, which postpones the next probe of the timer. */
  check(): Promise<StorageFault | undefined>;
  /** Returns the fault that the last probe found; undefined if the storage accepted its write. */
  fault(): StorageFault | undefined;
  close(): Promise<void>;
}

/**
 * Reports when the storage is lost, when the reason changes, and when the storage is back. The first probe starts at
 * once; until it ends, the storage counts as available, because the process has just opened it.
 * @param parts `probe`: returns why the storage accepts no writes, or undefined if it does. Must not reject
 */
export function watchStorage(parts: {
  probe: () => Promise<StorageFault | undefined>;
  events: StorageEvents;
  monotonicClock: () => number;
}): StorageWatch {
  const { probe, events, monotonicClock } = parts;
  let lost: { fault: StorageFault; since: number } | undefined;
  let timer: NodeJS.Timeout | undefined;
  let startedProbes = 0;
  let newestProbe = 0;
  let isStopped = false;

  const report = (fault: StorageFault | undefined): void => {
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
    startedProbes += 1;
    const probeNumber = startedProbes;
    const startedAt = monotonicClock();
    const fault = await probe();
    // Ignore a probe that ends after a later one.
    if (isStopped || probeNumber < newestProbe) return fault;
    newestProbe = probeNumber;
    report(fault);
    clearTimeout(timer);
    const untilNextProbe = startedAt + PROBE_MS - monotonicClock();
    timer = setTimeout(check, lost ? LOST_PROBE_MS : Math.max(untilNextProbe, LOST_PROBE_MS)).unref();
    return fault;
  };

  void check();
  return {
    check,
    fault: () => lost?.fault,
    async close() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
