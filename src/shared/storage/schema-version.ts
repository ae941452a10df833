/**
 * The schema record of the storage: its identity, and its schema version. A program that is too old or too new for it, or too
 * new for the running processes, refuses to start.
 */
import { randomUUID } from 'node:crypto';
import { callKeyRoll } from './key-roll-call.ts';
import { keys, OLDEST_READABLE, SCHEMA, type SchemaVersion } from './keys.ts';
import { fromCandidate, StorageRefused } from './refused.ts';
import type { Store } from './store.ts';

/** @param text of the record; undefined in an empty storage. @throws StorageRefused if the program cannot read the storage */
export function assertReadable(text: string | undefined, own = SCHEMA): void {
  const { version, oldestReader } = schemaOf(text);
  if (text !== undefined && version < OLDEST_READABLE) throw fromCandidate();
  if (oldestReader <= own.version) return;
  throw new StorageRefused(
    `The storage has version ${version}, which needs a release with version ${oldestReader} or later; this one has ${own.version}. ` +
      'Start the newer release, or restore a backup from before the upgrade.',
  );
}

/**
 * Notes this program's schema version in the storage, and gives it an identity if it has none: it is new, or was restored.
 * @returns the identity
 * @throws StorageRefused if the program cannot read the storage, or a running process could not read what this one writes
 */
export async function agreeOnSchema(store: Store, own = SCHEMA): Promise<string> {
  for (;;) {
    const stored = await store.get(keys.schema);
    assertReadable(stored?.value, own);
    const { version, oldestReader, identity, ...rest } = schemaOf(stored?.value);
    if (version >= own.version && identity !== undefined) return identity;
    if (stored && oldestReader < own.oldestReader) await assertNoOlderProcess(store, own);
    const next = {
      ...rest,
      version: Math.max(version, own.version),
      oldestReader: Math.max(oldestReader, own.oldestReader),
      identity: identity ?? randomUUID(),
    };
    const put = { put: keys.schema, value: JSON.stringify(next), ifVersion: stored?.version ?? 0 };
    if (await store.write([put])) return next.identity;
  }
}

/** Undefined where the storage has none. @param text of the schema record */
export function identityOf(text: string | undefined): string | undefined {
  return schemaOf(text).identity;
}

/** The schema record as a copy has it: what is made of the copy is another storage. */
export function withoutIdentity(text: string): string {
  const { identity: _, ...rest } = schemaOf(text);
  return JSON.stringify(rest);
}

async function assertNoOlderProcess(store: Store, own: SchemaVersion): Promise<void> {
  if ((await callKeyRoll(store)).every(({ schema }) => schema >= own.oldestReader)) return;
  throw new StorageRefused(
    'A running process is of an older release that cannot read what this one writes. Stop every older process, then start this one.',
  );
}

interface SchemaRecord extends SchemaVersion {
  /** Random; made with the storage. */
  identity?: string;
}

function schemaOf(text: string | undefined): SchemaRecord {
  return text === undefined ? { version: 0, oldestReader: 0 } : (JSON.parse(text) as SchemaRecord);
}
