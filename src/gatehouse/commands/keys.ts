/** The commands `keys generate`, `keys status`, `keys rotate` and `keys forget` for the encryption keys. */
import type { Command } from 'commander';
import { generateEncryptionKey } from '../../shared/storage/key-ring.ts';
import type { RotationResult } from '../../shared/storage/key-rotation.ts';
import { keyReportText } from './key-report.ts';
import { printResult, type Terminal } from './terminal.ts';

interface JsonOption {
  json?: boolean;
}

const JSON_FLAG = '--json';

export function define(keys: Command, terminal: Terminal): void {
  addGenerate(keys, terminal);

  keys
    .command('status')
    .description('count the records that each key seals, and say which key can be removed')
    .option(JSON_FLAG, 'print {"encryptionKeys", "processes"} (use npm run -s)')
    .action(async ({ json = false }: JsonOption) => {
      const { readReport } = await import('./operator-keys.ts');
      const report = await readReport(terminal);
      printResult(terminal, { json, data: report, text: keyReportText(report) });
    });

  keys
    .command('rotate')
    .description('seal every record again with the first key of ENCRYPTION_KEYS, while Gatehouse runs')
    .option(JSON_FLAG, 'print {"kid", "reencrypted", "unreadable", "removable"} (use npm run -s)')
    .addHelpText('after', ROTATE_HELP)
    .action(async ({ json = false }: JsonOption) => {
      const { rotate } = await import('./operator-keys.ts');
      const { kid, result, unused } = await rotate(terminal);
      const { resealed: reencrypted, retired: removable } = result;
      const data = { kid, reencrypted, unreadable: Object.fromEntries(result.unreadable), removable };
      printResult(terminal, { json, data, text: rotationText(kid, result, unused) });
    });

  addForget(keys, terminal);
}

function addGenerate(keys: Command, terminal: Terminal): void {
  keys
    .command('generate')
    .description('create a key for ENCRYPTION_KEYS and print it as kid:base64url')
    .option(JSON_FLAG, 'print {"kid", "key", "setting"} (use npm run -s)')
    .addHelpText(
      'after',
      '\nPut the new key first in ENCRYPTION_KEYS and keep the old ones after it: the first key seals, and all keys open.',
    )
    .action(({ json = false }: JsonOption) => {
      const setting = generateEncryptionKey(new Date());
      const [kid = '', key = ''] = setting.split(':');
      printResult(terminal, { json, data: { kid, key, setting }, text: setting });
    });
}

const ROTATE_HELP = `
1. Create a key with: npm run -s gatehouse -- keys generate
2. Put it last in ENCRYPTION_KEYS of every process, and then first. If there is only one process, put it first right away.
3. Run this command. It may be interrupted and run again.
4. Remove the old key from ENCRYPTION_KEYS. Keep a copy elsewhere as long as you keep backups from before the rotation.`;

function rotationText(
  kid: string,
  { resealed, unreadable, retired }: RotationResult,
  unused: readonly string[],
): string {
  const sealedAgain = `${resealed.toLocaleString('en-GB')} ${resealed === 1 ? 'was' : 'were'} sealed again`;
  const lines = [`Every record is now sealed with ${kid}: ${sealedAgain}.`];
  for (const [kind, count] of unreadable) {
    const [records, were] = count === 1 ? ['record', 'was'] : ['records', 'were'];
    const subject = `${count.toLocaleString('en-GB')} ${records} of the kind ${kind}`;
    lines.push(`${subject} cannot be opened with any key and ${were} not changed.`);
  }
  for (const unusedKid of unused)
    lines.push(
      `${unusedKid} comes after it and was never used. To change to it, put it first, restart or reload every process, and run this again.`,
    );
  if (retired.length > 0) lines.push(`Remove from ENCRYPTION_KEYS: ${retired.join(', ')}`);
  return lines.join('\n');
}

function addForget(keys: Command, terminal: Terminal): void {
  keys
    .command('forget')
    .description('forget a lost key, so that Gatehouse starts without it')
    .argument('<kid>', 'the id of the lost key')
    .option('--yes', 'forget the key; without this option, only show the records that would be lost')
    .option(JSON_FLAG, 'print {"kid", "done", "records"} (use npm run -s)')
    .addHelpText('after', '\nUsers whose connections this key sealed must connect again.')
    .action(async (kid: string, { yes = false, json = false }: JsonOption & { yes?: boolean }) => {
      const { forget } = await import('./operator-keys.ts');
      const records = await forget(terminal, kid, yes);
      printResult(terminal, { json, data: { kid, done: yes, records }, text: forgetText(kid, yes, records) });
      if (!yes) terminal.setExitStatus(1);
    });
}

function forgetText(kid: string, done: boolean, records: Record<string, number>): string {
  const number = Object.values(records)
    .reduce((sum, count) => sum + count, 0)
    .toLocaleString('en-GB');
  const kinds = Object.entries(records).map(([kind, count]) => `- ${kind}: ${count.toLocaleString('en-GB')}`);
  const head = done
    ? `Gatehouse has forgotten the key "${kid}". Lost with it: ${number} records that only this key opens.`
    : `Forgetting the key "${kid}" would lose ${number} records that only this key opens. To do it, run this again with --yes.`;
  return [head, ...kinds].join('\n');
}
