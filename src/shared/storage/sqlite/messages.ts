/**
 * Publish and subscribe between the processes that share a database file, by the table `notices` and a poll of
 * `data_version`.
 */
import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { createListeners } from '../listeners.ts';
import type { Store } from '../store.ts';
import { isStorageFault } from './faults.ts';
import type { SqliteParts } from './parts.ts';
import { LIMIT } from './schema.ts';

interface StoredMessage {
  id: number;
  channel: string;
  message: string;
}

const READ_BATCH = 1_000;
const POLL_MS = 20;

export function sqliteMessages({
  database,
  clock,
  read,
  write,
}: SqliteParts): Pick<Store, 'publish' | 'subscribe'> & { close(): void } {
  const origin = randomUUID();
  const insert = database.prepare('INSERT INTO notices (channel, message, origin, at) VALUES (?, ?, ?, ?)');
  const listeners = createListeners();
  const readForeign = prepareForeignRead(database, origin);
  let timer: NodeJS.Timeout | undefined;

  function poll(): void {
    try {
      for (let messages = readForeign(); messages.length > 0; messages = readForeign()) {
        for (const { channel, message } of messages) listeners.deliver(channel, message);
      }
    } catch (error) {
      // The messages stay in the table for the next poll. Requests report the fault.
      if (!isStorageFault(error)) throw error;
    }
  }

  return {
    async publish(channel, message) {
      await write(() => void insert.run(channel, message, origin, clock()));
      listeners.deliver(channel, message);
    },
    async subscribe(channel, listener) {
      const end = await read(() => {
        // Earlier messages are only for earlier subscribers.
        poll();
        timer ??= setInterval(poll, POLL_MS).unref();
        return listeners.add(channel, listener);
      });
      return async () => void end();
    },
    close() {
      clearInterval(timer);
      listeners.clear();
    },
  };
}

/** Returns the messages of other processes since the last call. Reads the table only after a commit. */
function prepareForeignRead(database: DatabaseSync, origin: string): () => StoredMessage[] {
  const version = database.prepare('PRAGMA data_version');
  const later = database.prepare(
    `SELECT id, channel, message FROM notices WHERE id > ? AND origin <> ? ORDER BY id ${LIMIT}`,
  );
  const last = database.prepare('SELECT max(id) AS id FROM notices').get() as { id: number | null };
  let lastId = last.id ?? 0;
  let lastVersion: unknown;
  return () => {
    const currentVersion = version.get()?.data_version;
    if (currentVersion === lastVersion) return [];
    const messages = later.all(lastId, origin, READ_BATCH) as unknown as StoredMessage[];
    lastId = messages.at(-1)?.id ?? lastId;
    if (messages.length < READ_BATCH) lastVersion = currentVersion;
    return messages;
  };
}
