/** Owns the filling of a storage from a copy: into an empty one alone, by one command at a time, whole and compared, or not in service. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../errors.ts';
import { copyIn, copyOut } from '../storage/copy.ts';
import { type CopyTally, createCopyTally, differences } from '../storage/copy-tally.ts';
import { callKeyRoll } from '../storage/key-roll-call.ts';
import { keys } from '../storage/keys.ts';
import { createLeases } from '../storage/lease.ts';
import { outOfService, putIntoService, takeOutOfService } from '../storage/out-of-service.ts';
import type { KeptItem, Store } from '../storage/store.ts';
import { startProgress, type Terminal } from './terminal.ts';

export interface Filled {
  items: number;
  /** What had ended by then, and was left out. */
  expired: number;
}

const LEASE_MILLISECONDS = 10_000;
/** Nothing that ends so soon is compared: it may go while one of the copies is read, and clocks may differ. */
const MARGIN_MILLISECONDS = 120_000;

/**
 * Notes that the storage is not to be served from, empties it of an unfinished attempt, fills it, and compares what is there
 * with what was given. Ended at any moment, it is begun anew by the next attempt.
 * @param parts `count`: of the items, for the bar; `replace`: what is there may be deleted; `finish`: what remains to be done
 *   before the storage is in service
 * @throws AppError where it is not empty, in use, or not what was given
 */
export async function fillStorage(parts: {
  store: Store;
  terminal: Terminal;
  count: number;
  replace: boolean;
  items: () => AsyncIterable<KeptItem[]>;
  finish: () => Promise<void>;
}): Promise<Filled> {
  const { store, terminal, count, replace, items, finish } = parts;
  return asOnlyCopier(store, async () => {
    if ((await outOfService(store))?.state !== 'filling') await assertFree(store, replace);
    await takeOutOfService(store, 'filling');
    await store.clear(keys.outOfService);
    const given = createCopyTally();
    let expired = 0;
    await withProgress(terminal, 'Writing', count, async (advance) => {
      for await (const some of items()) {
        const alive = some.filter((item) => !('expiresAt' in item) || (item.expiresAt ?? Infinity) > Date.now());
        expired += some.length - alive.length;
        await copyIn(store, alive);
        given.add(alive);
        advance(some.length);
      }
    });
    const found = await withProgress(terminal, 'Comparing', given.count(), (advance) => tallyOf(store, advance));
    assertSame(given, found);
    await finish();
    await putIntoService(store);
    return { items: given.count(), expired };
  });
}

/** Does the work unless another such command works on this storage; waits for one that was killed. */
export async function asOnlyCopier<T>(store: Store, work: () => Promise<T>): Promise<T> {
  const leases = createLeases({ store, milliseconds: LEASE_MILLISECONDS });
  const until = performance.now() + LEASE_MILLISECONDS * 1.2;
  for (;;) {
    const done = await leases.hold(keys.storageCopy, work);
    if (done) return done.value;
    if (performance.now() > until)
      throw conflict('Another restore or migration works on this storage. Wait for its end.');
    await sleep(500);
  }
}

/** Reads everything once. */
export async function tallyOf(store: Store, advance: (done: number) => void = () => undefined): Promise<CopyTally> {
  const tally = createCopyTally();
  for await (const some of copyOut(store)) {
    tally.add(some);
    advance(some.length);
  }
  return tally;
}

/** @throws AppError with the kinds that differ, in number or content */
export function assertSame(given: CopyTally, found: CopyTally): void {
  const horizon = Date.now() + MARGIN_MILLISECONDS;
  const different = differences(given.result(horizon), found.result(horizon));
  if (different.length === 0) return;
  throw conflict(
    `The two storages differ (${different.join('; ')}). Somebody else has written to one of them. Stop every process, and run this again.`,
  );
}

/** @throws AppError while a process serves from this storage */
export async function assertUnused(store: Store, which: string): Promise<void> {
  const { length } = await callKeyRoll(store);
  if (length === 0) return;
  const who = length === 1 ? 'A running process uses' : `${length} running processes use`;
  throw conflict(`${who} the storage ${which}. Stop every Gatehouse, then run this again.`);
}

export async function withProgress<T>(
  terminal: Terminal,
  title: string,
  total: number,
  work: (advance: (done: number) => void) => Promise<T>,
): Promise<T> {
  const progress = startProgress(terminal, title, total);
  return work(progress.advance).finally(progress.stop);
}

async function assertFree(store: Store, replace: boolean): Promise<void> {
  await assertUnused(store, 'that is to be filled');
  if (replace) return;
  const tally = await tallyOf(store);
  if (tally.count() === 0) return;
  const kinds = Object.entries(tally.result()).map(([kind, { count }]) => `${kind}: ${count}`);
  throw conflict(
    `The storage that is to be filled is not empty: it holds ${tally.count().toLocaleString('en-GB')} items (${kinds.join(', ')}). ` +
      'Move the database away (DATA_DIR/gatehouse.sqlite and the files beside it), or take an empty database of Redis.',
  );
}

function conflict(detail: string): AppError {
  return new AppError('version_conflict', { detail });
}
