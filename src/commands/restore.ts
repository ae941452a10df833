/** Owns the command that puts a backup into an empty storage. */
import { statSync } from 'node:fs';
import type { Command } from 'commander';
import { openStore } from '../open-storage.ts';
import { checkKeyRing } from '../storage/key-check.ts';
import type { Sealer } from '../storage/sealed.ts';
import { type ReadBackup, readBackup } from './backup-file.ts';
import { type Filled, fillStorage, withProgress } from './fill-storage.ts';
import { noteByOperator } from './operator-trail.ts';
import { createBackupKeys } from './restore-keys.ts';
import { readPlace } from './storage-place.ts';
import { answer, type Terminal } from './terminal.ts';

interface RestoreOptions {
  replace: boolean;
  lostKeys: readonly string[];
}

const HELP = `
The file is read to its end before anything is written: it has to be whole, unaltered, and of the keys in ENCRYPTION_KEYS.
Everything that is written is then read again and compared. A restore that was ended in the middle leaves a storage from which
nothing starts: run it again, and it begins anew. What was ended after the backup (revoked tokens, disabled users) is back.`;

export function addRestoreCommand(program: Command, terminal: Terminal): void {
  program
    .command('restore')
    .description('put a backup into an empty storage, while no Gatehouse runs')
    .argument('<file>', 'the file that backup wrote')
    .option('--replace', 'delete first what the storage holds')
    .option('--lost-key <kid...>', 'restore although this key is lost; then run: keys forget <kid>')
    .option('--json', 'print {"file", "made", "items", "expired"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async (file: string, options: { replace?: boolean; lostKey?: string[]; json?: boolean }) => {
      const { replace = false, lostKey: lostKeys = [], json = false } = options;
      const { made, items, expired } = await restore(terminal, file, { replace, lostKeys });
      answer(terminal, { json, data: { file, made, items, expired }, text: textOf(made, { items, expired }) });
    });
}

async function restore(terminal: Terminal, file: string, options: RestoreOptions): Promise<ReadBackup & Filled> {
  const { config, sealer } = readPlace(terminal.source);
  const backup = await check(terminal, file, sealer, options.lostKeys);
  const store = await openStore({ config, clock: Date.now, random: Math.random });
  try {
    const filled = await fillStorage({
      ...{ store, terminal, count: backup.end.items, replace: options.replace },
      items: () => readBackup(file),
      async finish() {
        await checkKeyRing(store, sealer, options.lostKeys);
        const facts = { made: backup.made, items: backup.end.items, sha256: backup.end.sha256 };
        await noteByOperator(store, { event: 'storage.restored', facts });
      },
    });
    return { ...backup, ...filled };
  } finally {
    await store.close();
  }
}

/** Reads the file to its end, and writes nothing. */
async function check(
  terminal: Terminal,
  file: string,
  sealer: Sealer,
  lostKeys: readonly string[],
): Promise<ReadBackup> {
  const keys = createBackupKeys(sealer);
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const backup = await withProgress(terminal, 'Checking', size, async (advance) => {
    const reading = readBackup(file, advance);
    let step = await reading.next();
    for (; !step.done; step = await reading.next()) keys.look(step.value);
    return step.value;
  });
  await keys.check(backup, lostKeys);
  return backup;
}

function textOf(made: string, { items, expired }: Filled): string {
  const lines = [`Restored ${items.toLocaleString('en-GB')} items as of ${made}, read again and found the same.`];
  if (expired > 0) lines.push(`Left out ${expired.toLocaleString('en-GB')} that have expired since.`);
  return lines.join('\n');
}
