/** Moves everything from one storage to another. */
import { resolve } from 'node:path';
import { StartRefused } from '../../shared/errors.ts';
import { copyOut } from '../../shared/storage/copy.ts';
import { checkKeyRing } from '../../shared/storage/key-check.ts';
import { keys } from '../../shared/storage/keys.ts';
import {
  MOVING_SECONDS,
  outOfService,
  outOfServiceRefused,
  putIntoService,
  takeOutOfService,
} from '../../shared/storage/out-of-service.ts';
import { assertReadable } from '../../shared/storage/schema-version.ts';
import type { Sealer } from '../../shared/storage/sealed.ts';
import { assertNotEmpty } from '../../shared/storage/storage.ts';
import type { Store } from '../../shared/storage/store.ts';
import { assertSame, assertUnused, type Filled, fillStorage, tallyOf, withCopyLease } from './fill-storage.ts';
import { withStore } from './open-storage.ts';
import { auditOperator } from './operator-trail.ts';
import { assertDatabase, howToEmpty, readPlace, type StoragePlace } from './storage-place.ts';
import type { Terminal } from './terminal.ts';

/** @param from see `readPlace`. @param to see `readPlace` */
export async function moveStorage(terminal: Terminal, from: string, to: string) {
  const [source, target] = [readPlace(terminal.source, from), readPlace(terminal.source, to)];
  const filled = await move(terminal, source, target);
  return { from: source.name, to: target.name, ...filled };
}

async function move(terminal: Terminal, from: StoragePlace, to: StoragePlace): Promise<Filled> {
  if (placeOf(from) === placeOf(to)) throw new StartRefused(['--from and --to name the same storage.']);
  assertDatabase(from);
  const { sealer } = from;
  return withStore(from, async (source) => {
    // Before the new storage is opened, which creates it.
    if (!(await outOfService(source))) await assertNotEmpty(source, from.config);
    return withStore(to, (target) => withCopyLease(source, () => copyAll({ terminal, source, target, sealer, to })));
  });
}

interface CopyParts {
  terminal: Terminal;
  source: Store;
  target: Store;
  sealer: Sealer;
  to: StoragePlace;
}

async function copyAll({ terminal, source, target, sealer, to }: CopyParts): Promise<Filled> {
  await assertMovable(source, target, sealer);
  await takeOutOfService(source, 'moving');
  // If one renewal fails, the next one still comes in time.
  const renewal = setInterval(
    () => void takeOutOfService(source, 'moving').catch(() => undefined),
    (MOVING_SECONDS * 1000) / 4,
  );
  try {
    await assertUnused(source, 'source storage');
    await auditOperator(source, { event: 'storage.moved', facts: { to: to.name } });
    if (terminal.err.isTTY) terminal.err.write('Reading everything once, for the comparison at the end.\n');
    const sourceTally = await tallyOf(source);
    return await fillStorage({
      store: target,
      terminal,
      count: sourceTally.count(),
      replace: false,
      remedy: howToEmpty(to),
      items: () => copyOut(source),
      async finish() {
        // Writes to the old storage during the copy would be lost.
        assertSame(sourceTally, await tallyOf(source));
        clearInterval(renewal);
        // Before the new storage goes into service, so that both can never be used at the same time.
        await takeOutOfService(source, 'moved');
      },
    });
  } catch (error) {
    if ((await outOfService(source))?.state === 'moving') await putIntoService(source);
    throw error;
  } finally {
    clearInterval(renewal);
  }
}

async function assertMovable(source: Store, target: Store, sealer: Sealer): Promise<void> {
  const note = await outOfService(source);
  // Move again if the target of an earlier attempt never went into service.
  const isDone = note?.state === 'moved' && (await outOfService(target))?.state !== 'filling';
  if (note && (isDone || note.state === 'filling')) throw outOfServiceRefused(note);
  assertReadable((await source.get(keys.schema))?.value);
  await checkKeyRing(source, sealer);
}

function placeOf({ config: { redis, dataDirectory } }: StoragePlace): string {
  return redis ? JSON.stringify({ ...redis, durability: undefined }) : resolve(dataDirectory);
}
