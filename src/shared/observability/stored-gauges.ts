/** Gauges of stored facts, which are read at most once a minute, and never while a scrape waits. */
import { Gauge, type Registry } from './prom-client.ts';

export interface StoredFacts {
  /** The number of connections by health. */
  connections: Readonly<Record<string, number>>;
  /** When the last backup ended (ISO 8601); undefined if the audit trail has none. */
  lastBackupAt: string | undefined;
}

export interface WatchedFacts {
  read(): Promise<StoredFacts>;
  /** Returns the apps whose client secret has a known end, in milliseconds since the epoch. Needs no storage. */
  secretEnds(): readonly { app: string; endsAt: number }[];
  /** Milliseconds since the epoch. */
  clock(): number;
}

const READ_INTERVAL_MS = 60_000;

/** Returns a function that sets the source of the facts. Before the first read, the gauges have no values. */
export function createStoredGauges(registers: Registry[]): (facts: WatchedFacts) => void {
  let source: WatchedFacts | undefined;
  let lastFacts: StoredFacts | undefined;
  let readAt = Number.NEGATIVE_INFINITY;

  /** Starts a read. A scrape gets the facts of the previous one, because it must not wait for the storage. */
  const refresh = (): void => {
    if (performance.now() - readAt < READ_INTERVAL_MS) return;
    readAt = performance.now();
    source?.read().then(
      (facts) => {
        lastFacts = facts;
      },
      // The last values remain, and a call after the next minute tries again.
      () => undefined,
    );
  };

  new Gauge({
    name: 'gatehouse_connections',
    help: 'Connections of users, by health. The same in every process of one storage.',
    labelNames: ['health'],
    registers,
    collect() {
      refresh();
      for (const [health, count] of Object.entries(lastFacts?.connections ?? {})) this.set({ health }, count);
    },
  });
  new Gauge({
    name: 'gatehouse_last_backup_age_seconds',
    help: 'Time since the last backup ended. The same in every process of one storage.',
    registers,
    collect() {
      refresh();
      if (source && lastFacts?.lastBackupAt !== undefined)
        this.set((source.clock() - Date.parse(lastFacts.lastBackupAt)) / 1_000);
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
      for (const { app, endsAt } of source?.secretEnds() ?? []) {
        this.set({ app }, (endsAt - (source?.clock() ?? 0)) / 1_000);
      }
    },
  });

  return (facts: WatchedFacts): void => {
    source = facts;
    refresh();
  };
}
