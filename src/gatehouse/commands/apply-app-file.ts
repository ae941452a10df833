/** Registers and changes apps in the storage, as described in a file. */
import { readFileSync } from 'node:fs';
import { loadConfig } from '../../shared/config/config.ts';
import { AppError, StartRefused } from '../../shared/errors.ts';
import { createAddressPolicy } from '../../shared/outbound/address-policy.ts';
import { createOutbound } from '../../shared/outbound/outbound.ts';
import { respondToKeyRollCall } from '../../shared/storage/key-roll-call.ts';
import type { Store } from '../../shared/storage/store.ts';
import { eventOfChange } from '../admin/connected-apps/changes.ts';
import type { AuditEntry } from '../audit/kinds.ts';
import { failedOutcome } from '../audit/outcome.ts';
import { parseConnectedApps } from '../connected-apps/app-file.ts';
import { applyApps, type PlannedApp, planApps } from '../connected-apps/apply.ts';
import type { CountSetAside } from '../connected-apps/change-rules.ts';
import { changeFacts } from '../connected-apps/change-rules.ts';
import { createConnectedApps } from '../connected-apps/connected-apps.ts';
import { signInClaimWarnings } from '../connected-apps/registration-rules.ts';
import { createGrantStore } from '../grants/grant-store.ts';
import { countSetAside } from '../grants/moved-apps.ts';
import { readFileApps } from './file-apps.ts';
import { withStorage } from './open-storage.ts';
import { auditedByOperator, auditOperator } from './operator-trail.ts';
import type { Terminal } from './terminal.ts';

export interface ApplyResult {
  applied: boolean;
  apps: { app: string; action: PlannedApp['action']; changed: readonly string[] }[];
  faults: readonly string[];
  warnings: readonly string[];
}

/** @throws StartRefused for wrong settings, AppError `version_conflict` if an app was changed at the same time */
export async function applyAppFile(
  terminal: Terminal,
  file: string,
  { dryRun }: { dryRun: boolean },
): Promise<ApplyResult> {
  const { config, faults } = loadConfig(terminal.source);
  if (!config) throw new StartRefused(faults);
  const fromFile = readFileApps(terminal, config);
  const policy = createAddressPolicy(config.internalHosts);
  const parsed = parseConnectedApps(readFileSync(file, 'utf8'), terminal.source, {
    policy,
    publicHref: config.publicUrl.href,
  });
  const fileFaults = parsed.faults.map((fault) => fault.replaceAll('CONNECTED_APPS_FILE', file));
  if (fileFaults.length > 0) return { applied: false, apps: [], faults: fileFaults, warnings: [] };
  await using modules = new AsyncDisposableStack();
  const outbound = modules.adopt(createOutbound({ policy, proxy: config.proxy }), (module) => module.close());
  return withStorage(terminal.source, async (storage) => {
    const { store, sealer, sealedJson } = storage;
    // Without this, a key rotation at the same time would miss apps that this process seals with the old key.
    await respondToKeyRollCall(store, sealer);
    const times = { clock: Date.now, monotonicClock: () => performance.now(), random: Math.random };
    const parts = { storage, outbound, fromFile, publicHref: config.publicUrl.href, ...times };
    const { apps, registry, close } = await createConnectedApps(parts);
    try {
      const grants = createGrantStore({ store, sealedJson, clock: Date.now });
      const applyParts = {
        registry,
        countSetAside: (...of: Parameters<CountSetAside>) => countSetAside(store, grants, ...of),
      };
      const plan = await planApps({ ...applyParts, apps: apps.list(), examine: outbound.examine }, parsed.apps);
      const plannedApps = plan.apps.map(({ app: { id }, action, changed }) => ({ app: id, action, changed }));
      const applied = plan.faults.length === 0 && !dryRun;
      if (applied) await applyAudited(store, plan.apps, (changes) => applyApps(applyParts, changes));
      return { applied, apps: plannedApps, faults: plan.faults, warnings: signInClaimWarnings(parsed.apps) };
    } finally {
      await close();
    }
  });
}

/**
 * Makes the changes. As in the administration, entries are written before them, and second entries if they fail.
 * @param apply see `applyApps`
 * @throws AppError `version_conflict`, which names the apps that were not changed
 */
export async function applyAudited(
  store: Store,
  apps: readonly PlannedApp[],
  apply: (apps: readonly PlannedApp[]) => Promise<string[] | undefined>,
): Promise<void> {
  const changes = apps.filter(({ action }) => action !== 'leave');
  if (changes.length === 0) return;
  const revertedIds = await auditedByOperator(store, changes.map(entryOf), async () => {
    const ids = await apply(changes);
    if (ids) return ids;
    throw conflict('Someone changed one of these apps in the meantime, so none is changed. Run this again.');
  });
  if (revertedIds.length === 0) return;
  const error = conflict(
    `The file changes the provider or hosts of ${revertedIds.join(', ')}, but a user has connected in the meantime, so this was reverted. All other apps were applied.`,
  );
  for (const change of changes.filter(({ app }) => revertedIds.includes(app.id)))
    await auditOperator(store, { ...entryOf(change), ...failedOutcome(error) });
  throw error;
}

const conflict = (detail: string) => new AppError('version_conflict', { detail });

function entryOf({ app, changed, before }: PlannedApp): Pick<AuditEntry, 'event' | 'target' | 'facts'> {
  const target = { kind: 'connected_app', id: app.id, name: app.name };
  if (!before) return { event: 'connected_app.created', target };
  return { event: eventOfChange(app, changed), target, facts: changeFacts(before.app, app, changed) };
}
