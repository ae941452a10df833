/** The text of `keys status` about keys and processes, which `status` also uses. */
import type { KeyReport, ListedKey } from '../../shared/storage/key-report.ts';
import type { KeyHolder } from '../../shared/storage/key-roll-call.ts';
import { tableText } from './terminal.ts';

export function keyReportText({ encryptionKeys, processes }: KeyReport): string {
  const rows = encryptionKeys.map((key) => [
    key.kid,
    keyState(key),
    key.records.toLocaleString('en-GB'),
    kindsOf(key.kinds),
  ]);
  return [
    tableText([['key', 'state', 'records', 'of these'], ...rows]),
    '',
    `Running processes: ${processesText(processes)}`,
  ].join('\n');
}

export function keyState({ encrypts, configured, removable, unused }: ListedKey): string {
  if (encrypts) return 'encrypts';
  if (!configured) return 'given up';
  if (unused) return 'not used yet';
  return removable ? 'can be removed' : 'decrypts, still needed';
}

function kindsOf(kinds: Record<string, number>): string {
  return Object.entries(kinds)
    .map(([kind, count]) => `${kind}: ${count.toLocaleString('en-GB')}`)
    .join(', ');
}

/** Returns a text such as "2 (1 encrypts with k1, 1 encrypts with k2)". */
export function processesText(processes: readonly KeyHolder[]): string {
  const bySealing = Map.groupBy(processes, ({ encryptsWith }) => encryptsWith);
  const parts = [...bySealing].map(
    ([kid, holders]) => `${holders.length} ${holders.length === 1 ? 'encrypts' : 'encrypt'} with ${kid}`,
  );
  return `${processes.length}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`;
}
