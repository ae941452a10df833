/** Owns the command that moves everything from one storage to another, so that only the other can be served from. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { AppError } from '../errors.ts';
import { openStore } from '../open-storage.ts';
import { StartRefused } from '../start-refused.ts';
import { copyOut } from '../storage/copy.ts';
import { checkKeyRing, isEmpty, WrongKeyError } from '../storage/key-check.ts';
import {
  MOVING_SECONDS,
  OutOfServiceError,
  outOfService,
  putIntoService,
  takeOutOfService,
} from '../storage/out-of-service.ts';
import type { Sealer } from '../storage/sealed.ts';
import type { Store } from '../storage/store.ts';
import { asOnlyCopier, assertSame, assertUnused, type Filled, fillStorage, tallyOf } from './fill-storage.ts';
import { noteByOperator } from './operator-trail.ts';
import { assertDatabase, readPlace, type StoragePlace } from './storage-place.ts';
import { answer, type Terminal } from './terminal.ts';

interface MigrateOptions {
  from: string;
  to: string;
  json?: boolean;
}

const HELP = `
A storage is named sqlite (that of DATA_DIR), redis (that of REDIS_URL, REDIS_CLUSTER or REDIS_SENTINELS), sqlite:FOLDER, or by
a redis:// or rediss:// URL. Others can see what stands in a command line: leave URLs with a password to the settings.

1. Stop every Gatehouse.
2. Set REDIS_URL (or its like) beside DATA_DIR, and run this command. It may be stopped at any moment and run again.
3. Start Gatehouse with the new storage. From the old one nothing starts any more; delete it when you are content.`;

export function addMigrateCommand(program: Command, terminal: Terminal): void {
  program
    .command('migrate')
    .description('move everything from SQLite to Redis, or the other way, while no Gatehouse runs')
    .option('--from <storage>', 'where it is', 'sqlite')
    .option('--to <storage>', 'where it goes; has to be empty', 'redis')
    .option('--json', 'print {"from", "to", "items", "expired"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async ({ from, to, json = false }: MigrateOptions) => {
      const [source, target] = [readPlace(terminal.source, from), readPlace(terminal.source, to)];
      const moved = await move(terminal, source, target);
      const data = { from: source.name, to: target.name, ...moved };
      answer(terminal, { json, data, text: textOf(data) });
    });
}

async function move(terminal: Terminal, from: StoragePlace, to: StoragePlace): Promise<Filled> {
  if (placeOf(from) === placeOf(to)) throw new StartRefused(['--from and --to name the same storage.']);
  assertDatabase(from);
  const parts = { clock: Date.now, random: Math.random };
  const source = await openStore({ config: from.config, ...parts });
  try {
    const target = await openStore({ config: to.config, ...parts });
    try {
      return await asOnlyCopier(source, () => copyAll({ terminal, source, target, sealer: from.sealer, to: to.name }));
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

interface CopyParts {
  terminal: Terminal;
  source: Store;
  target: Store;
  sealer: Sealer;
  /** For the audit trail. */
  to: string;
}

async function copyAll({ terminal, source, target, sealer, to }: CopyParts): Promise<Filled> {
  await assertMovable(source, target, sealer);
  await takeOutOfService(source, 'moving');
  // A renewal that fails is made up for by the next.
  const renewal = setInterval(
    () => void takeOutOfService(source, 'moving').catch(() => undefined),
    (MOVING_SECONDS * 1000) / 4,
  );
  try {
    await assertUnused(source, 'that is to be moved');
    await noteByOperator(source, { event: 'storage.moved', facts: { to } });
    if (terminal.err.isTTY) terminal.err.write('Everything is read once, to be compared in the end.\n');
    const given = await tallyOf(source);
    return await fillStorage({
      ...{ store: target, terminal, count: given.count(), replace: false },
      items: () => copyOut(source),
      async finish() {
        // Whoever wrote to the old storage meanwhile would lose that.
        assertSame(given, await tallyOf(source));
        clearInterval(renewal);
        // Before the new one is in service: at no moment can both be served from.
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
  // One that was moved into a storage that was never put into service is moved again.
  const isDone = note?.state === 'moved' && (await outOfService(target))?.state !== 'filling';
  if (note && (isDone || note.state === 'filling')) throw refused(new OutOfServiceError(note));
  if (await isEmpty(source))
    throw new AppError('not_found', { detail: 'There is nothing to move: see that --from is right.' });
  try {
    await checkKeyRing(source, sealer);
  } catch (error) {
    throw error instanceof WrongKeyError ? refused(error) : error;
  }
}

function refused(error: Error): StartRefused {
  return new StartRefused([error.message], { cause: error });
}

function placeOf({ config: { redis, dataDirectory } }: StoragePlace): string {
  return redis ? JSON.stringify({ ...redis, durability: undefined }) : resolve(dataDirectory);
}

function textOf({ from, to, items, expired }: Filled & { from: string; to: string }): string {
  const lines = [
    `Moved ${items.toLocaleString('en-GB')} items from ${from} to ${to}, read again and found the same.`,
    `Start Gatehouse with ${to}. From the old storage nothing starts any more.`,
  ];
  if (expired > 0) lines.splice(1, 0, `Left out ${expired.toLocaleString('en-GB')} that have expired meanwhile.`);
  return lines.join('\n');
}
