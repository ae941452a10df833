/** Gauges of what the storage holds, read at most once a minute, and never while a scrape waits. */
import { Gauge, type Registry } from './prom-client.ts';

export interface StoredFacts {
  /** How many there are in each state of health. */
  connections: Readonly<Record<string, number>>;
  /** When the last backup ended (ISO 8601); undefined where the audit trail has none. */
  lastBackupAt: string | undefined;
}

export interface WatchedFacts {
  read(): Promise<StoredFacts>;
  /** The apps whose client secret ends at a known time, in milliseconds since the epoch. Held in memory. */
  secretEnds(): readonly { app: string; endsAt: number }[];
  /** Milliseconds since the epoch. */
  clock(): number;
}

const READ_INTERVAL_MS = 60_000;

/** Returns a function that sets where the facts are found. Until then, and until they were read once, there are no values. */
export function createStoredGauges(registers: Registry[]): (facts: WatchedFacts) => void {
  let watched: WatchedFacts | undefined;
  let last: StoredFacts | undefined;
  let readAt = Number.NEGATIVE_INFINITY;

  /** A scrape gets what was read before it: it must not wait for a storage that is down. */
  const readAgain = (): void => {
    if (performance.now() - readAt < READ_INTERVAL_MS) return;
    readAt = performance.now();
    watched?.read().then(
      (facts) => {
        last = facts;
      },
      // The last values stay; the next minute tries again.
      () => undefined,
    );
  };

  new Gauge({
    name: 'gatehouse_connections',
    help: 'Connections of users, by health. The same in every process of one storage.',
    labelNames: ['health'],
    registers,
    collect() {
      readAgain();
      for (const [health, count] of Object.entries(last?.connections ?? {})) this.set({ health }, count);
    },
  });
  new Gauge({
    name: 'gatehouse_last_backup_age_seconds',
    help: 'Time since the last backup ended. The same in every process of one storage.',
    registers,
    collect() {
      readAgain();
      if (watched && last?.lastBackupAt !== undefined)
        this.set((watched.clock() - Date.parse(last.lastBackupAt)) / 1_000);
      else this.remove();
    },
  });
  new Gauge({
    name: 'gatehouse_client_secret_remaining_seconds',
    help: 'Time until the client secret of an app ends; negative after that.',
    labelNames: ['app'],
    registers,
    collect() {
      this.reset();
      for (const { app, endsAt } of watched?.secretEnds() ?? []) {
        this.set({ app }, (endsAt - (watched?.clock() ?? 0)) / 1_000);
      }
    },
  });

  return (facts: WatchedFacts): void => {
    watched = facts;
    readAgain();
  };
}
