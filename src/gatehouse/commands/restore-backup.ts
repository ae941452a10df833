/** Fills the storage from a backup, and finds the records that were ended since. */
import { loadSessionConfig } from '../../shared/config/config.ts';
import { StartRefused } from '../../shared/errors.ts';
import { createSessionStore } from '../../shared/sessions/sessions.ts';
import { checkKeyRing } from '../../shared/storage/key-check.ts';
import { createSealedJson } from '../../shared/storage/sealed-json.ts';
import { type ReadBackup, readBackup } from './backup-file.ts';
import { checkBackup } from './check-backup.ts';
import { type EndedAgain, endedAgain, readEnded } from './ended-since.ts';
import { type Filled, fillStorage } from './fill-storage.ts';
import { withStore } from './open-storage.ts';
import { auditOperator } from './operator-trail.ts';
import { howToEmpty, readPlace } from './storage-place.ts';
import type { Terminal } from './terminal.ts';

interface RestoreOptions {
  replace: boolean;
  lostKeys: readonly string[];
  /** An export of the audit trail. */
  audit: string | undefined;
}

/** `ended`: only with an audit export. */
type Restored = ReadBackup & Filled & { ended: EndedAgain[] | undefined };

export async function restoreBackup(terminal: Terminal, file: string, options: RestoreOptions): Promise<Restored> {
  const place = readPlace(terminal.source);
  const { sealer } = place;
  const { values: lifetimes, faults } = loadSessionConfig(terminal.source);
  if (options.audit !== undefined && faults.length > 0) throw new StartRefused(faults);
  const backup = await checkBackup(terminal, file, { sealer, lostKeys: options.lostKeys });
  const endedSteps =
    options.audit === undefined ? undefined : await readEnded(options.audit, Date.parse(backup.createdAt));
  const remedy = `${howToEmpty(place)} To delete its contents and restore into it, add --replace.`;
  const { items: count, sha256 } = backup.end;
  return withStore(place, async (store) => {
    const filled = await fillStorage({
      store,
      terminal,
      count,
      replace: options.replace,
      remedy,
      items: () => readBackup(file),
      async finish() {
        await checkKeyRing(store, sealer, options.lostKeys);
        await auditOperator(store, {
          event: 'storage.restored',
          facts: { createdAt: backup.createdAt, items: count, sha256 },
        });
      },
    });
    if (!endedSteps) return { ...backup, ...filled, ended: undefined };
    const sealedJson = createSealedJson(sealer);
    const { ofUsers: sessions } = createSessionStore({ store, sealedJson, lifetimes, clock: Date.now });
    return { ...backup, ...filled, ended: await endedAgain(endedSteps, { store, sealedJson, sessions }) };
  });
}
