/** Publish and subscribe between the processes that share a database file: a table, and a poll of `data_version`. */

import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { isStorageFault } from './faults.ts';
import { LIMIT } from './schema.ts';

export interface SqliteNotices {
  /** Inside a transaction only. */
  insert(channel: string, message: string): void;
  /** For this process, once the transaction is on disk. */
  deliver(channel: string, message: string): void;
  subscribe(channel: string, listener: (message: string) => void): () => void;
  close(): void;
}

export interface SqliteNoticesParts {
  database: DatabaseSync;
  clock: () => number;
  pollMilliseconds: number;
}

interface Notice {
  id: number;
  channel: string;
  message: string;
}

const READ_BATCH = 1_000;

type Listeners = Map<string, Set<{ listener: (message: string) => void }>>;

export function createSqliteNotices({ database, clock, pollMilliseconds }: SqliteNoticesParts): SqliteNotices {
  const origin = randomUUID();
  const insert = database.prepare('INSERT INTO notices (channel, message, origin, at) VALUES (?, ?, ?, ?)');
  const subscriptions: Listeners = new Map();
  const readForeign = createForeignReader(database, origin);
  let timer: NodeJS.Timeout | undefined;

  const deliver = (channel: string, message: string) => deliverTo(subscriptions, channel, message);

  function poll(): void {
    try {
      for (let notices = readForeign(); notices.length > 0; notices = readForeign()) {
        for (const { channel, message } of notices) deliver(channel, message);
      }
    } catch (error) {
      // The notices stay in the table, so the next poll finds them; requests report the fault.
      if (!isStorageFault(error)) throw error;
    }
  }

  function unsubscribe(channel: string, entry: { listener: (message: string) => void }): void {
    const entries = subscriptions.get(channel);
    entries?.delete(entry);
    if (entries?.size === 0) subscriptions.delete(channel);
  }

  return {
    insert: (channel, message) => void insert.run(channel, message, origin, clock()),
    deliver,
    subscribe(channel, listener) {
      // What was published before belongs to earlier subscribers alone.
      poll();
      timer ??= setInterval(poll, pollMilliseconds).unref();
      const entry = { listener };
      subscriptions.set(channel, (subscriptions.get(channel) ?? new Set()).add(entry));
      return () => unsubscribe(channel, entry);
    },
    close() {
      clearInterval(timer);
      subscriptions.clear();
    },
  };
}

/** Answers what other processes have published since the last call, and reads no table while nothing was committed. */
function createForeignReader(database: DatabaseSync, origin: string): () => Notice[] {
  const version = database.prepare('PRAGMA data_version');
  const later = database.prepare(
    `SELECT id, channel, message FROM notices WHERE id > ? AND origin <> ? ORDER BY id ${LIMIT}`,
  );
  const last = database.prepare('SELECT max(id) AS id FROM notices').get() as { id: number | null };
  let seenId = last.id ?? 0;
  let seenVersion: unknown;
  return () => {
    const currentVersion = version.get()?.data_version;
    if (currentVersion === seenVersion) return [];
    const notices = later.all(seenId, origin, READ_BATCH) as unknown as Notice[];
    seenId = notices.at(-1)?.id ?? seenId;
    if (notices.length < READ_BATCH) seenVersion = currentVersion;
    return notices;
  };
}

function deliverTo(subscriptions: Listeners, channel: string, message: string): void {
  for (const { listener } of subscriptions.get(channel) ?? []) {
    try {
      listener(message);
    } catch (error) {
      // One listener's mistake must not keep the message from the others.
      process.emitWarning(error instanceof Error ? error : String(error));
    }
  }
}
