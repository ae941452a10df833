/** Imports connections from a file, with the modules of the server that this needs. */
import { statSync } from 'node:fs';
import { loadConfig } from '../../shared/config/config.ts';
import { AppError, StartRefused } from '../../shared/errors.ts';
import { createObservability } from '../../shared/observability/observability.ts';
import { createAddressPolicy } from '../../shared/outbound/address-policy.ts';
import { createOutbound } from '../../shared/outbound/outbound.ts';
import { respondToKeyRollCall } from '../../shared/storage/key-roll-call.ts';
import { createAudit } from '../audit/audit.ts';
import { createConnectedApps } from '../connected-apps/connected-apps.ts';
import { createGrants } from '../grants/grants.ts';
import { createPlatform } from '../platform/platform.ts';
import { type ImportItem, startImport } from '../users/connection-import.ts';
import type { ImportReport } from '../users/import-schema.ts';
import { createUserStore } from '../users/user-store.ts';
import { createWebhooks } from '../webhooks/webhooks.ts';
import { readFileApps } from './file-apps.ts';
import { readEntries } from './json-entries.ts';
import { withStorage } from './open-storage.ts';
import { auditOperator } from './operator-trail.ts';
import { type Terminal, withProgress } from './terminal.ts';

/** The number of tokens that are sealed before they are tried. */
const BATCH = 200;
/** How long to wait while a provider does not respond. */
const PATIENCE = { milliseconds: 300_000, sinceSuccess: true };

/** @throws StartRefused for wrong settings, AppError if the file cannot be read */
export async function importConnections(terminal: Terminal, file: string): Promise<ImportReport> {
  const { config, faults } = loadConfig(terminal.source);
  if (!config) throw new StartRefused(faults);
  const fromFile = readFileApps(terminal, config);
  const size = statSync(file, { throwIfNoEntry: false })?.size;
  if (size === undefined) throw new AppError('invalid_request', { detail: `${file} cannot be read: check the path.` });
  return withStorage(terminal.source, async (storage) => {
    const { store, sealer } = storage;
    // Otherwise a key rotation at the same time would miss records that this process seals with the old key.
    await respondToKeyRollCall(store, sealer);
    const clock = Date.now;
    const random = Math.random;
    const monotonicClock = () => performance.now();
    const { href: publicHref } = config.publicUrl;
    // Closed in reverse order, so that the events of the last refresh are still audited and sent to webhooks.
    await using modules = new AsyncDisposableStack();
    const adopt = <T extends { close(): Promise<void> }>(module: T): T =>
      modules.adopt(module, (adopted) => adopted.close());
    const withoutLogs = {
      config: { logLevel: 'silent' as const, tracing: undefined },
      logDestination: { write: () => undefined },
    };
    const { events } = adopt(await createObservability({ ...withoutLogs, clock, monotonicClock }));
    const audit = adopt(await createAudit({ storage, events, days: config.auditDays, clock }));
    const policy = createAddressPolicy(config.internalHosts);
    const outbound = adopt(createOutbound({ policy, proxy: config.proxy, limits: config.outbound }));
    adopt(createWebhooks({ storage, outbound, audit, events, clock, random }));
    const times = { clock, monotonicClock, random };
    const connectedApps = adopt(await createConnectedApps({ storage, outbound, fromFile, publicHref, ...times }));
    const grants = adopt(createGrants({ storage, connectedApps, outbound, config, events, publicHref, clock, random }));
    const { charge } = adopt(await createPlatform({ storage, grants, publicHref, clock }));
    const { report, take } = startImport({
      apps: connectedApps.apps,
      users: createUserStore({ store, clock }),
      imports: grants.imports,
      charge,
      clock,
      audit: ({ userId, app, connection, scopes }) =>
        auditOperator(store, {
          event: 'connection.imported',
          target: { kind: 'connection', id: `${userId}/${app}` },
          userId,
          facts: { connection, scopes },
        }),
      patience: PATIENCE,
    });
    await withProgress(terminal, 'Importing', size, async (advance) => {
      let batch: ImportItem[] = [];
      const importBatch = async () => {
        await take(batch);
        batch = [];
      };
      for await (const item of readEntries(file, advance)) if (batch.push(item) === BATCH) await importBatch();
      await importBatch();
    });
    return report;
  });
}
