/** Implements `status`. Loaded only when it runs. */
import { loadManagementConfig } from '../../shared/config/config.ts';
import { hostAndPort } from '../../shared/config/rules.ts';
import type { ConfigSource } from '../../shared/config/setting.ts';
import { AppError, StartRefused } from '../../shared/errors.ts';
import { listKeys } from '../../shared/storage/key-report.ts';
import { callKeyRoll } from '../../shared/storage/key-roll-call.ts';
import { keys, SCHEMA } from '../../shared/storage/keys.ts';
import { VERSION } from '../../shared/version.ts';
import { createConnectionIndex } from '../grants/connection-index.ts';
import { withStorage } from './open-storage.ts';
import { operatorTrail } from './operator-trail.ts';
import { readReadiness } from './readiness.ts';
import { readPlace } from './storage-place.ts';
import type { Terminal } from './terminal.ts';

export type Status = Awaited<ReturnType<typeof readStatus>>;

export async function readStatus({ source }: Terminal) {
  const { values: management, faults } = loadManagementConfig(source);
  const place = readPlace(source);
  if (faults.length > 0) throw new StartRefused(faults);
  const here = await readReadiness(management);
  const { fault, held } = await readStored(source);
  const storage = { name: place.name, schema: SCHEMA.version, fault };
  /** `here` is null if nothing listens at `management`; what the storage holds is null if it does not respond. */
  return { version: VERSION, storage, management: hostAndPort(management), here, ...held };
}

const UNKNOWN = { processes: null, keys: null, connections: null, sessions: null, lastBackup: null };

/** `fault` says why the storage cannot be read now; null if it can. */
async function readStored(source: ConfigSource) {
  try {
    return { fault: null, held: await readHeld(source) };
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'storage_unavailable') throw error;
    return { fault: error.message, held: UNKNOWN };
  }
}

function readHeld(source: ConfigSource) {
  return withStorage(source, async (storage) => {
    const { store } = storage;
    const [processes, held, connections, sessions, backups] = await Promise.all([
      callKeyRoll(store),
      listKeys(storage),
      createConnectionIndex({ store, clock: Date.now }).countByHealth(),
      store.count(keys.liveSessions),
      operatorTrail(store).page({ limit: 1, filter: { event: 'storage.backed_up' } }),
    ]);
    const [backup] = backups.items;
    return {
      processes,
      keys: held,
      connections,
      /** May include recently expired ones. */
      sessions,
      lastBackup: backup ? { at: backup.at, items: backup.facts?.items ?? null } : null,
    };
  });
}
