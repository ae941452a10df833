/** The command `apps apply`: registers and changes apps in the storage, as described in a file. */
import type { Command } from 'commander';
import type { ApplyResult } from './apply-app-file.ts';
import { printResult, type Terminal, tableText } from './terminal.ts';

const HELP = `
The file has the format of CONNECTED_APPS_FILE. Each of its apps is registered, or changed to match the file. Other apps do not
change: nothing is deleted. Every app is checked first, and all are written in one step, or none. Running processes use them within a
second. Apps of CONNECTED_APPS_FILE itself can only be changed in that file, which is reloaded at SIGHUP.
Needs the settings of the server. Exits with status 1 if there are faults.`;

export function addApplyCommand(apps: Command, terminal: Terminal): void {
  apps
    .command('apply <file>')
    .description('register and change apps in the storage to match a file, while Gatehouse runs')
    .option('--dry-run', 'only show the changes')
    .option(
      '--json',
      'print {"applied", "apps": [{"app", "action", "changed"}], "faults", "warnings"} (use npm run -s)',
    )
    .addHelpText('after', HELP)
    .action(async (file: string, { dryRun = false, json = false }: { dryRun?: boolean; json?: boolean }) => {
      const { applyAppFile } = await import('./apply-app-file.ts');
      const applied = await applyAppFile(terminal, file, { dryRun });
      printResult(terminal, { json, data: applied, text: textOf(applied, dryRun) });
      if (applied.faults.length > 0) terminal.setExitStatus(1);
    });
}

function textOf({ apps, faults, warnings }: ApplyResult, dryRun: boolean): string {
  if (faults.length > 0) return [...faults.map((fault) => `- ${fault}`), 'Nothing was changed.'].join('\n');
  if (apps.length === 0) return 'The file has no apps. Nothing was changed.';
  const rows = tableText(apps.map(({ app, action, changed }) => [action, app, changed.join(', ')]));
  const table = [rows, ...warnings.map((warning) => `Warning: ${warning}`)].join('\n');
  if (apps.every(({ action }) => action === 'leave')) return `${table}\nEverything already matches the file.`;
  return `${table}\n${dryRun ? 'Nothing was changed: this was a dry run.' : 'Done.'}`;
}
