/** The command `status`: the first thing to look at if something is wrong. */
import type { Command } from 'commander';
import { keyState, processesText } from './key-report.ts';
import type { Readiness, Status, StoredStatus } from './read-status.ts';
import { printResult, type Terminal, tableText } from './terminal.ts';

const HELP = `
Changes nothing. "This machine" is the response of /readyz at MANAGEMENT_HOST and MANAGEMENT_PORT; processes are counted by a roll
call through the storage. "version" is that of this command. Exits with status 1 unless the process here is ready and the storage responds.`;

export function define(status: Command, terminal: Terminal): void {
  status
    .option(
      '--json',
      'print {"version", "storage", "management", "thisMachine", "processes", "encryptionKeys", "connections", "sessions", "lastBackup"} (use npm run -s)',
    )
    .addHelpText('after', HELP)
    .action(async ({ json = false }: { json?: boolean }) => {
      const { readStatus } = await import('./read-status.ts');
      const data = await readStatus(terminal);
      printResult(terminal, { json, data, text: textOf(data) });
      if (!data.processes?.length || !data.thisMachine?.ready) terminal.setExitStatus(1);
    });
}

function textOf(status: Status): string {
  const { version, storage, management, thisMachine } = status;
  const state = storage.fault === null ? `responds, schema ${storage.schema}` : `DOES NOT RESPOND: ${storage.fault}`;
  return tableText([
    ['version', version],
    ['storage', `${storage.name}, ${state}`],
    ['this machine', readinessText(thisMachine, management)],
    ...(status.processes === null ? [] : rowsOf(status)),
  ]);
}

function rowsOf({ processes, encryptionKeys, connections, sessions, lastBackup }: StoredStatus): string[][] {
  const byHealth = Object.entries(connections).filter(([, count]) => count > 0);
  return [
    ['processes', processes.length === 0 ? 'NONE RUNNING' : processesText(processes)],
    ['keys', encryptionKeys.map((key) => `${key.kid} (${keyState(key)})`).join(', ')],
    [
      'connections',
      byHealth.map(([health, count]) => `${health.replaceAll('_', ' ')}: ${numberText(count)}`).join(', ') || 'none',
    ],
    ['sessions', numberText(sessions)],
    ['last backup', lastBackup ? lastBackup.at : 'none in the audit trail'],
  ];
}

const numberText = (count: number) => count.toLocaleString('en-GB');

function readinessText(readiness: Readiness | null, management: string): string {
  if (readiness === null) return `nothing responds at ${management} (MANAGEMENT_HOST, MANAGEMENT_PORT)`;
  if (readiness.ready === null) return `something responds at ${management}, but not as this version of Gatehouse does`;
  return readiness.ready ? 'ready' : `NOT READY: ${readiness.reason ?? 'no reason given'}`;
}
