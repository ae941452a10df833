/** Counts the records under each encryption key: at most every 30 seconds, because each count reads every record. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type KeyReport, reportKeys } from '../../storage/key-report.ts';
import type { Sealer } from '../../storage/sealed.ts';
import type { Store } from '../../storage/store.ts';
import { isoTime } from '../../time.ts';

export type CountedReport = KeyReport & { countedAt: string };

const MAX_AGE_MS = 30_000;

export function createKeyCount(parts: { store: Store; sealer: Sealer; clock: () => number }) {
  const { store, sealer, clock } = parts;
  let last: { report: CountedReport; at: number } | undefined;
  let running: Promise<CountedReport> | undefined;

  const count = (): Promise<CountedReport> => {
    const at = clock();
    running ??= reportKeys({ store, sealer })
      .then((found) => {
        const report = { ...found, countedAt: isoTime(at) };
        last = { report, at };
        return report;
      })
      .finally(() => {
        running = undefined;
      });
    return running;
  };

  /** The last report at once; if it is old, a new count starts in the background. The first call waits for its count. */
  const latest = (): Promise<CountedReport> => {
    if (last === undefined) return count();
    const age = clock() - last.at;
    // A failure of this count shows when `latest` is called and there is no report.
    if (age < 0 || age >= MAX_AGE_MS) count().catch(() => undefined);
    return Promise.resolve(last.report);
  };

  return {
    latest,
    /** Undefined if the first count takes longer than this. */
    async within(milliseconds: number): Promise<CountedReport | undefined> {
      const report = latest();
      report.catch(() => undefined);
      return Promise.race([report, sleep(milliseconds, undefined, { ref: false })]);
    },
  };
}
