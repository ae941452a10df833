/** Applies reloaded settings in the running process: all of them, or none. */
import { hostname } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { AppError, StartRefused } from '../shared/errors.ts';
import type { Events } from '../shared/observability/events.ts';
import type { ConnectedApp } from '../shared/provider/connected-app.ts';
import { assertKeyRing, checkKeyRing } from '../shared/storage/key-check.ts';
import { createStorageSealer, type Storage } from '../shared/storage/storage.ts';
import type { Audit } from './audit/audit.ts';
import type { ReadSettings } from './read-settings.ts';

/** Secret settings that a reload applies; the others need a restart. */
const APPLIED_BY_RELOAD: ReadonlySet<string> = new Set([
  'SESSION_SECRETS',
  'ENCRYPTION_KEYS',
  'BIN_SERVICE_API_KEY',
  'OTEL_EXPORTER_OTLP_HEADERS',
]);

/** Reloads run one at a time. Never rejects. @param read throws StartRefused */
export type Reload = (read: () => ReadSettings) => Promise<void>;

/**
 * @param parts `initial`: the settings of the start. `use`: applies settings to the modules; synchronous, never throws
 */
export function createReload(parts: {
  initial: ReadSettings;
  storage: Pick<Storage, 'store' | 'sealer'>;
  audit: Pick<Audit, 'trail'>;
  events: Pick<Events, 'settingsReloaded' | 'reloadRefused' | 'settingWarned'>;
  use: (settings: ReadSettings) => void;
}): Reload {
  const { storage, audit, events, use } = parts;
  const { store, sealer } = storage;
  let current = parts.initial;

  const attempt = async (read: () => ReadSettings): Promise<void> => {
    const settings = read();
    const next = { ...settings, fromFile: sameObjects(current.fromFile, settings.fromFile) };
    const changes = changesBetween(current, next);
    const changesKeys = changes.settings?.includes('ENCRYPTION_KEYS');
    const nextSealer = changesKeys ? createStorageSealer(next.encryptionKeys) : undefined;
    if (nextSealer) await assertKeyRing(store, nextSealer);
    if (Object.values(changes).some((names) => names !== undefined)) {
      const facts = { ...changes, process: `${process.pid} on ${hostname()}` };
      await audit.trail.append({ event: 'settings.reloaded', actor: { kind: 'operator' }, facts });
    }
    // Last of the checks, because from then on every start requires the new key, which a failed reload must not cause.
    if (nextSealer) await checkKeyRing(store, nextSealer);
    // From here on nothing can fail, and no request sees a part of the changes.
    if (nextSealer) sealer.replace(nextSealer);
    use(next);
    for (const warning of next.warnings) if (!current.warnings.includes(warning)) events.settingWarned(warning);
    // Until the restart, each reload reports the settings that need one.
    current = {
      ...next,
      secrets: new Map([...next.secrets, ...currentValues(changes.restartNeeded, current.secrets)]),
    };
    events.settingsReloaded(changes);
  };

  let previous = Promise.resolve();
  return (read) => {
    previous = previous.then(() => attempt(read)).catch((error: unknown) => events.reloadRefused(refusalOf(error)));
    return previous;
  };
}

/** Returns names and ids only. A list is undefined if it would be empty. */
function changesBetween(before: ReadSettings, after: ReadSettings) {
  const changed = [...after.secrets]
    .filter(([name, value]) => before.secrets.get(name) !== value)
    .map(([name]) => name);
  const idsIn = ({ fromFile }: ReadSettings) => fromFile.map(({ id }) => id);
  const [idsBefore, idsAfter] = [idsIn(before), idsIn(after)];
  return {
    settings: unlessEmpty(changed.filter((name) => APPLIED_BY_RELOAD.has(name))),
    restartNeeded: unlessEmpty(changed.filter((name) => !APPLIED_BY_RELOAD.has(name))),
    appsAdded: unlessEmpty(idsAfter.filter((id) => !idsBefore.includes(id))),
    appsChanged: unlessEmpty(
      after.fromFile.filter((app) => idsBefore.includes(app.id) && !before.fromFile.includes(app)).map(({ id }) => id),
    ),
    appsRemoved: unlessEmpty(idsBefore.filter((id) => !idsAfter.includes(id))),
  };
}

const unlessEmpty = (names: readonly string[]) => (names.length === 0 ? undefined : names);

const currentValues = (names: readonly string[] = [], secrets: ReadonlyMap<string, string>) =>
  names.map((name) => [name, secrets.get(name) ?? ''] as const);

/** Caches use the app object as their key, so an app that has not changed must stay the same object. */
function sameObjects(before: readonly ConnectedApp[], after: readonly ConnectedApp[]): readonly ConnectedApp[] {
  return after.map((app) => before.find((old) => isDeepStrictEqual(old, app)) ?? app);
}

function refusalOf(error: unknown): { faults: readonly string[]; cause?: unknown } {
  if (error instanceof StartRefused) return { faults: error.faults };
  if (error instanceof AppError && error.code === 'storage_unavailable')
    return { faults: ['The storage does not respond: send the signal again once it does.'] };
  return { faults: ['An unexpected failure.'], cause: error };
}
