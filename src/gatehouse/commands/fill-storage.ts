/**
 * Fills an empty storage from a copy and compares the result. The storage is out of service until that has succeeded.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../shared/errors.ts';
import { copyIn, copyOut } from '../../shared/storage/copy.ts';
import { type CopyTally, createCopyTally, differences } from '../../shared/storage/copy-tally.ts';
import { callKeyRoll } from '../../shared/storage/key-roll-call.ts';
import { keys } from '../../shared/storage/keys.ts';
import { createLeases } from '../../shared/storage/lease.ts';
import { outOfService, putIntoService, takeOutOfService } from '../../shared/storage/out-of-service.ts';
import type { CopyItem, Store } from '../../shared/storage/store.ts';
import { type Terminal, withProgress } from './terminal.ts';

export interface Filled {
  items: number;
  /** Items that were skipped because they had expired. */
  expired: number;
}

const LEASE_MS = 10_000;
/**
 * Items that expire this soon are not compared, because they may expire during the comparison, and clocks may differ.
 */
const MARGIN_MS = 120_000;

/**
 * Takes the storage out of service, deletes the remains of an unfinished attempt, fills the storage and compares the
 * result with the source. If interrupted, the next attempt starts from the beginning.
 * @param parts `count`: number of items, for the progress bar; `replace`: delete the contents of the storage; `remedy`:
 *   what to do if it is not empty; `finish`: called before the storage goes into service
 * @throws AppError if the storage is in use, not empty, or differs from the source afterwards
 */
export async function fillStorage(parts: {
  store: Store;
  terminal: Terminal;
  count: number;
  replace: boolean;
  remedy: string;
  items: () => AsyncIterable<CopyItem[]>;
  finish: () => Promise<void>;
}): Promise<Filled> {
  const { store, terminal, count, replace, remedy, items, finish } = parts;
  return withCopyLease(store, async () => {
    if ((await outOfService(store))?.state !== 'filling') await assertFree(store, { replace, remedy });
    await takeOutOfService(store, 'filling');
    await store.clear(keys.outOfService);
    const expectedTally = createCopyTally();
    let expired = 0;
    await withProgress(terminal, 'Writing', count, async (advance) => {
      for await (const batch of items()) {
        const unexpiredItems = batch.filter(
          (item) => !('expiresAt' in item) || (item.expiresAt ?? Infinity) > Date.now(),
        );
        expired += batch.length - unexpiredItems.length;
        await copyIn(store, unexpiredItems);
        expectedTally.add(unexpiredItems);
        advance(batch.length);
      }
    });
    const storedTally = await withProgress(terminal, 'Comparing', expectedTally.count(), (advance) =>
      tallyOf(store, advance),
    );
    assertSame(expectedTally, storedTally);
    await finish();
    await putIntoService(store);
    return { items: expectedTally.count(), expired };
  });
}

/**
 * Runs the work while no other restore or migration runs on this storage. Waits for the lease of a killed one to
 * expire.
 */
export async function withCopyLease<T>(store: Store, work: () => Promise<T>): Promise<T> {
  const leases = createLeases({ store, milliseconds: LEASE_MS });
  const until = performance.now() + LEASE_MS * 1.2;
  for (;;) {
    const result = await leases.hold(keys.storageCopy, work);
    if (result) return result.value;
    if (performance.now() > until)
      throw conflict('Another restore or migration is running on this storage. Wait until it has ended.');
    await sleep(500);
  }
}

/** Reads the whole storage. */
export async function tallyOf(store: Store, advance: (done: number) => void = () => undefined): Promise<CopyTally> {
  const tally = createCopyTally();
  for await (const batch of copyOut(store)) {
    tally.add(batch);
    advance(batch.length);
  }
  return tally;
}

/** @throws AppError with the kinds that differ in number or content */
export function assertSame(expected: CopyTally, actual: CopyTally): void {
  const horizon = Date.now() + MARGIN_MS;
  const differentKinds = differences(expected, actual, horizon);
  if (differentKinds.length === 0) return;
  throw conflict(
    `The two storages differ (${differentKinds.join('; ')}). Another process has written to one of them. Stop every process and run this again.`,
  );
}

/** @param description names the storage in the text. @throws AppError if a process uses this storage */
export async function assertUnused(store: Store, description: string): Promise<void> {
  const { length } = await callKeyRoll(store);
  if (length === 0) return;
  const subject = length === 1 ? 'A running process uses' : `${length} running processes use`;
  throw conflict(`${subject} the ${description}. Stop every Gatehouse process, then run this again.`);
}

async function assertFree(store: Store, { replace, remedy }: { replace: boolean; remedy: string }): Promise<void> {
  await assertUnused(store, 'target storage');
  if (replace) return;
  const tally = await tallyOf(store);
  if (tally.count() === 0) return;
  const kinds = Object.entries(tally.counts()).map(([kind, count]) => `${kind}: ${count}`);
  throw conflict(
    `The target storage is not empty: it holds ${tally.count().toLocaleString('en-GB')} items (${kinds.join(', ')}). ${remedy}`,
  );
}

function conflict(detail: string): AppError {
  return new AppError('version_conflict', { detail });
}
