/** The command `connections import`: imports refresh tokens of another system. */
import type { Command } from 'commander';
import type { ImportReport } from '../users/import-schema.ts';
import { printResult, type Terminal, tableText } from './terminal.ts';

const HELP = `
The file is JSON lines, or one JSON array, of any length:
  {"user": {"subject": "SUB", "issuer": "ISSUER"}, "app": "APP", "refreshToken": "TOKEN",
   "scopes": ["SCOPE"], "account": {"subject": "SUB AT THE APP'S PROVIDER"}}
"issuer", "scopes" and "account" may be left out; {"id": "ID"} names a user who has signed in.
Each token is sealed, then tried by one refresh. A connection that works is not changed. The command may be interrupted and run
again. Needs the settings of the server. Exits with status 1 if an entry could not be connected.
Delete the file afterwards: unless the provider rotates refresh tokens, those in it are still valid. There is no export.`;

export function define(connections: Command, terminal: Terminal): void {
  connections
    .command('import')
    .description('import refresh tokens of another system, while Gatehouse runs')
    .argument('<file>', 'JSON lines, or a JSON array')
    .option(
      '--json',
      'print {"imported", "alreadyConnected", "refused", "unchecked", "invalid", "failures"} (use npm run -s)',
    )
    .addHelpText('after', HELP)
    .action(async (file: string, { json = false }: { json?: boolean }) => {
      const { importConnections } = await import('./import-connections.ts');
      const report = await importConnections(terminal, file);
      printResult(terminal, { json, data: report, text: textOf(report) });
      if (report.failures.length > 0) terminal.setExitStatus(1);
    });
}

function textOf({ failures, ...counts }: ImportReport): string {
  const words: Record<keyof typeof counts, string> = {
    imported: 'imported',
    alreadyConnected: 'already connected',
    refused: 'refused',
    unchecked: 'not checked',
    invalid: 'not valid',
  };
  const summary = Object.entries(words).map(
    ([name, word]) => `${counts[name as keyof typeof counts].toLocaleString('en-GB')} ${word}`,
  );
  const rows = failures.map(({ line, userId, app, result, detail }) => [
    ...[String(line), words[result], app ?? '-', userId ?? '-', detail],
  ]);
  const table = tableText([['line', 'result', 'app', 'user', 'reason'], ...rows]);
  return [`${summary.join(', ')}.`, ...(failures.length > 0 ? ['', table] : [])].join('\n');
}
