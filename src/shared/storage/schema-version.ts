/**
 * The schema record of the storage, with its identity and schema version. A program refuses to start if it is too old
 * or too new for the storage, or too new for the running processes.
 */
import { randomUUID } from 'node:crypto';
import { callKeyRoll } from './key-roll-call.ts';
import { keys, OLDEST_READABLE, SCHEMA, type SchemaVersion } from './keys.ts';
import { releaseCandidateRefused, StorageRefused } from './refused.ts';
import type { Store } from './store.ts';

/**
 * @param text value of the schema record; undefined for an empty storage
 * @throws StorageRefused if the program cannot read the storage
 */
export function assertReadable(text: string | undefined, program = SCHEMA): void {
  const { version, oldestReader } = schemaOf(text);
  if (text !== undefined && version < OLDEST_READABLE) throw releaseCandidateRefused();
  if (oldestReader <= program.version) return;
  throw new StorageRefused(
    `The storage has version ${version} and needs a release with version ${oldestReader} or later; this one has ${program.version}. ` +
      'Start the newer release, or restore a backup from before the upgrade.',
  );
}

/**
 * Writes this program's schema version to the storage, and gives a new or restored storage an identity.
 * @returns the identity
 * @throws StorageRefused if the program cannot read the storage, or a running process could not read what this one
 *   writes
 */
export async function agreeOnSchema(store: Store, program = SCHEMA): Promise<string> {
  for (;;) {
    const stored = await store.get(keys.schema);
    assertReadable(stored?.value, program);
    const { version, oldestReader, identity, ...rest } = schemaOf(stored?.value);
    if (version >= program.version && identity !== undefined) return identity;
    if (stored && oldestReader < program.oldestReader) await assertNoOlderProcess(store, program);
    const next = {
      ...rest,
      version: Math.max(version, program.version),
      oldestReader: Math.max(oldestReader, program.oldestReader),
      identity: identity ?? randomUUID(),
    };
    const step = { put: keys.schema, value: JSON.stringify(next), ifVersion: stored?.version ?? 0 };
    if (await store.write([step])) return next.identity;
  }
}

/** Returns the identity of the storage; undefined if it has none. @param text value of the schema record */
export function identityOf(text: string | undefined): string | undefined {
  return schemaOf(text).identity;
}

/**
 * Returns the schema record for a copy, without the identity: a storage that is filled from the copy is another
 * storage.
 */
export function withoutIdentity(text: string): string {
  const { identity: _, ...rest } = schemaOf(text);
  return JSON.stringify(rest);
}

async function assertNoOlderProcess(store: Store, program: SchemaVersion): Promise<void> {
  if ((await callKeyRoll(store)).every(({ schema }) => schema >= program.oldestReader)) return;
  throw new StorageRefused(
    'A process of an older release is running, and cannot read what this release writes. Stop every older process, then start this one.',
  );
}

interface SchemaRecord extends SchemaVersion {
  /** A random id, created with the storage. */
  identity?: string;
}

function schemaOf(text: string | undefined): SchemaRecord {
  return text === undefined ? { version: 0, oldestReader: 0 } : (JSON.parse(text) as SchemaRecord);
}
