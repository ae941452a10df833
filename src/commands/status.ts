/** The command `status`: what an operator looks at first when something is wrong. */
import type { Command } from 'commander';
import { loadManagementConfig } from '../config/config.ts';
import { hostAndPort } from '../config/rules.ts';
import type { ConfigSource } from '../config/setting.ts';
import { AppError, StartRefused } from '../errors.ts';
import { createConnectionIndex } from '../grants/connection-index.ts';
import { listKeys } from '../storage/key-report.ts';
import { callKeyRoll } from '../storage/key-roll-call.ts';
import { keys, SCHEMA } from '../storage/keys.ts';
import { VERSION } from '../version.ts';
import { keyState, processesText } from './key-report.ts';
import { withStorage } from './open-storage.ts';
import { operatorTrail } from './operator-trail.ts';
import { type Readiness, readReadiness } from './readiness.ts';
import { assertDatabase, readPlace } from './storage-place.ts';
import { printResult, type Terminal, tableText } from './terminal.ts';

const HELP = `
Changes nothing. "This machine" is what /readyz says at MANAGEMENT_HOST and MANAGEMENT_PORT; processes are counted by asking them
through the storage. "version" is that of this command. Exits with status 1 if no process runs, the one here is not ready, or the
storage does not respond.`;

export function addStatusCommand(program: Command, terminal: Terminal): void {
  program
    .command('status')
    .description('show version, storage, readiness, processes, keys, connections by health and the last backup')
    .option(
      '--json',
      'print {"version", "storage", "management", "here", "processes", "keys", "connections", "sessions", "lastBackup"} (use npm run -s)',
    )
    .addHelpText('after', HELP)
    .action(async ({ json = false }: { json?: boolean }) => {
      const data = await readStatus(terminal);
      printResult(terminal, { json, data, text: textOf(data) });
      if (!data.processes?.length || data.here?.ready === false) terminal.setExitStatus(1);
    });
}

type Status = Awaited<ReturnType<typeof readStatus>>;

async function readStatus({ source }: Terminal) {
  const { values: management, faults } = loadManagementConfig(source);
  const place = readPlace(source);
  if (faults.length > 0) throw new StartRefused(faults);
  assertDatabase(place);
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

function textOf(status: Status): string {
  const { version, storage, management, here } = status;
  const state = storage.fault === null ? `responds, schema ${storage.schema}` : `DOES NOT RESPOND: ${storage.fault}`;
  return tableText([
    ['version', version],
    ['storage', `${storage.name}, ${state}`],
    ['this machine', hereText(here, management)],
    ...(status.processes === null ? [] : rowsOf(status)),
  ]);
}

type Held = Extract<Status, { processes: unknown[] }>;

function rowsOf({ processes, keys: held, connections, sessions, lastBackup }: Held): string[][] {
  const byHealth = Object.entries(connections).filter(([, count]) => count > 0);
  return [
    ['processes', processes.length === 0 ? 'NONE RUNNING' : processesText(processes)],
    ['keys', held.map((key) => `${key.kid} (${keyState(key)})`).join(', ')],
    [
      'connections',
      byHealth.map(([health, count]) => `${health.replaceAll('_', ' ')}: ${numberText(count)}`).join(', ') || 'none',
    ],
    ['sessions', numberText(sessions)],
    ['last backup', lastBackup ? lastBackup.at : 'none in the audit trail'],
  ];
}

const numberText = (count: number) => count.toLocaleString('en-GB');

function hereText(here: Readiness | null, management: string): string {
  if (here === null) return `nothing responds at ${management} (MANAGEMENT_HOST, MANAGEMENT_PORT)`;
  if (here.ready === null) return `something responds at ${management}, but not as this version of Gatehouse does`;
  return here.ready ? 'ready' : `NOT READY: ${here.reason ?? 'no reason given'}`;
}
