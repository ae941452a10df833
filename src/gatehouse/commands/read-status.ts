/** Reads the data of `status` from the process on this machine and from the storage. */
import { z } from 'zod';
import { loadManagementConfig } from '../../shared/config/config.ts';
import { hostAndPort } from '../../shared/config/rules.ts';
import type { ConfigSource } from '../../shared/config/setting.ts';
import { AppError, StartRefused } from '../../shared/errors.ts';
import { parseJson } from '../../shared/json.ts';
import { type ListedKey, listKeys } from '../../shared/storage/key-report.ts';
import { callKeyRoll, type KeyHolder } from '../../shared/storage/key-roll-call.ts';
import { keys, SCHEMA } from '../../shared/storage/keys.ts';
import { VERSION } from '../../shared/version.ts';
import { createConnectionIndex } from '../grants/connection-index.ts';
import type { Health } from '../grants/grant.ts';
import { withStorage } from './open-storage.ts';
import { operatorTrail } from './operator-trail.ts';
import { readPlace } from './storage-place.ts';
import type { Terminal } from './terminal.ts';

const TIMEOUT_MS = 3_000;

const readyzBody = z.object({ ready: z.boolean(), reason: z.string().optional() });

/** `ready` is null if the response is not that of this version: another version, or another program. */
export interface Readiness {
  ready: boolean | null;
  reason?: string | undefined;
}

/** The part of the status that is read from the storage. */
export interface StoredStatus {
  processes: KeyHolder[];
  encryptionKeys: ListedKey[];
  connections: Record<Health, number>;
  /** May include recently expired ones. */
  sessions: number;
  lastBackup: { at: string; items: unknown } | null;
}

export type Status = {
  version: string;
  /** `fault`: the reason if the storage cannot be read; otherwise null. */
  storage: { name: string; schema: number; fault: string | null };
  /** The address from which `thisMachine` was read. */
  management: string;
  /** Null if nothing listens at `management`. */
  thisMachine: Readiness | null;
} & (StoredStatus | typeof UNKNOWN);

export async function readStatus({ source }: Terminal): Promise<Status> {
  const { values: management, faults } = loadManagementConfig(source);
  const place = readPlace(source);
  if (faults.length > 0) throw new StartRefused(faults);
  const thisMachine = await readReadiness(management);
  const { fault, stored } = await readStored(source);
  const storage = { name: place.name, schema: SCHEMA.version, fault };
  return { version: VERSION, storage, management: hostAndPort(management), thisMachine, ...stored };
}

/** Reads `/readyz` of the process on this machine. Null if nothing responds there. */
async function readReadiness(management: { host: string; port: number }): Promise<Readiness | null> {
  try {
    const url = `http://${hostAndPort(management)}/readyz`;
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    return readyzBody.safeParse(parseJson(await response.text())).data ?? { ready: null };
  } catch {
    return null;
  }
}

/** The stored part of the status if the storage does not respond. */
const UNKNOWN = { processes: null, encryptionKeys: null, connections: null, sessions: null, lastBackup: null };

async function readStored(source: ConfigSource) {
  try {
    return { fault: null, stored: await readStorage(source) };
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'storage_unavailable') throw error;
    return { fault: error.message, stored: UNKNOWN };
  }
}

function readStorage(source: ConfigSource): Promise<StoredStatus> {
  return withStorage(source, async (storage) => {
    const { store } = storage;
    const [processes, encryptionKeys, connections, sessions, backups] = await Promise.all([
      callKeyRoll(store),
      listKeys(storage),
      createConnectionIndex({ store, clock: Date.now }).countByHealth(),
      store.count(keys.liveSessions),
      operatorTrail(store).page({ limit: 1, filter: { event: 'storage.backed_up' } }),
    ]);
    const [backup] = backups.items;
    return {
      processes,
      encryptionKeys,
      connections,
      sessions,
      lastBackup: backup ? { at: backup.at, items: backup.facts?.items ?? null } : null,
    };
  });
}
