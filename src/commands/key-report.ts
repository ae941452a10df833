/** The text of `keys status`. */
import type { KeyReport } from '../storage/key-report.ts';
import type { KeyHolder } from '../storage/key-roll-call.ts';
import { tableText } from './terminal.ts';

export function keyReportText({ keys, processes }: KeyReport): string {
  const rows = keys.map((key) => [key.kid, stateOf(key), key.records.toLocaleString('en-GB'), kindsOf(key.kinds)]);
  return [tableText([['key', 'state', 'records', 'of these'], ...rows]), '', runningText(processes)].join('\n');
}

function stateOf({ seals, held, droppable }: KeyReport['keys'][number]): string {
  if (seals) return 'seals';
  if (!held) return 'given up';
  return droppable ? 'can be dropped' : 'opens, still needed';
}

function kindsOf(kinds: Record<string, number>): string {
  return Object.entries(kinds)
    .map(([kind, count]) => `${kind}: ${count.toLocaleString('en-GB')}`)
    .join(', ');
}

function runningText(processes: readonly KeyHolder[]): string {
  const bySealing = Map.groupBy(processes, ({ seals }) => seals);
  const parts = [...bySealing].map(
    ([kid, holders]) => `${holders.length} ${holders.length === 1 ? 'seals' : 'seal'} with ${kid}`,
  );
  return `Running processes: ${processes.length}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`;
}
