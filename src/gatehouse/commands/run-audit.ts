/** Implements `audit export`. Loaded only when it runs. */
import { once } from 'node:events';
import { withStorage } from './open-storage.ts';
import { auditOperator, operatorTrail } from './operator-trail.ts';
import type { Terminal } from './terminal.ts';

/** @param words the limits as they were typed, for the entry about the export */
export async function exportTrail(
  terminal: Terminal,
  filter: { from: number | undefined; to: number | undefined },
  words: { from: string | undefined; to: string | undefined },
): Promise<void> {
  await withStorage(terminal.source, async ({ store }) => {
    await auditOperator(store, { event: 'audit.exported', facts: words });
    for await (const record of operatorTrail(store).export(filter)) {
      if (!terminal.out.write(`${JSON.stringify(record)}\n`)) await once(terminal.out, 'drain');
    }
  });
}
