/** Uses settings that were read again, in the running process: all of them, or none. */
import { hostname } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { AppError, StartRefused } from '../shared/errors.ts';
import type { Events } from '../shared/observability/events.ts';
import type { ConnectedApp } from '../shared/provider/connected-app.ts';
import { assertKeyRing, checkKeyRing } from '../shared/storage/key-check.ts';
import { createStorageSealer, type Storage } from '../shared/storage/storage.ts';
import type { Audit } from './audit/audit.ts';
import type { ReadSettings } from './read-settings.ts';

/** The other secret settings are read again only at a restart. */
const USED_AT_ONCE: ReadonlySet<string> = new Set([
  'SESSION_SECRETS',
  'ENCRYPTION_KEYS',
  'BIN_SERVICE_API_KEY',
  'OTEL_EXPORTER_OTLP_HEADERS',
]);

/** One at a time. Never rejects. @param read throws StartRefused */
export type Reload = (read: () => ReadSettings) => Promise<void>;

/** @param parts `initial`: the settings of the start. `use`: makes the modules use them, at once and without fail */
export function createReload(parts: {
  initial: ReadSettings;
  storage: Pick<Storage, 'store' | 'sealer'>;
  audit: Pick<Audit, 'trail'>;
  events: Pick<Events, 'settingsReloaded' | 'reloadRefused'>;
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
    // Only now: each start demands a key from then on, and a reload that fails must not take a new one into use.
    if (nextSealer) await checkKeyRing(store, nextSealer);
    // From here on nothing can fail, and no request sees half of it.
    if (nextSealer) sealer.replace(nextSealer);
    use(next);
    // A setting that waits for the restart is reported again by each reload until then.
    current = { ...next, secrets: new Map([...next.secrets, ...waiting(changes.restartNeeded, current.secrets)]) };
    events.settingsReloaded(changes);
  };

  let last = Promise.resolve();
  return (read) => {
    last = last.then(() => attempt(read)).catch((error: unknown) => events.reloadRefused(refusalOf(error)));
    return last;
  };
}

/** Names only; undefined where there is none. */
function changesBetween(before: ReadSettings, after: ReadSettings) {
  const changed = [...after.secrets]
    .filter(([name, value]) => before.secrets.get(name) !== value)
    .map(([name]) => name);
  const idsIn = ({ fromFile }: ReadSettings) => fromFile.map(({ id }) => id);
  const [old, now] = [idsIn(before), idsIn(after)];
  return {
    settings: unlessEmpty(changed.filter((name) => USED_AT_ONCE.has(name))),
    restartNeeded: unlessEmpty(changed.filter((name) => !USED_AT_ONCE.has(name))),
    appsAdded: unlessEmpty(now.filter((id) => !old.includes(id))),
    appsChanged: unlessEmpty(
      after.fromFile.filter((app) => old.includes(app.id) && !before.fromFile.includes(app)).map(({ id }) => id),
    ),
    appsRemoved: unlessEmpty(old.filter((id) => !now.includes(id))),
  };
}

const unlessEmpty = (names: readonly string[]) => (names.length === 0 ? undefined : names);

const waiting = (names: readonly string[] = [], secrets: ReadonlyMap<string, string>) =>
  names.map((name) => [name, secrets.get(name) ?? ''] as const);

/** Caches use an app as their key, so one that has not changed stays the same object. */
function sameObjects(before: readonly ConnectedApp[], after: readonly ConnectedApp[]): readonly ConnectedApp[] {
  return after.map((app) => before.find((old) => isDeepStrictEqual(old, app)) ?? app);
}

function refusalOf(error: unknown): { faults: readonly string[]; cause?: unknown } {
  if (error instanceof StartRefused) return { faults: error.faults };
  if (error instanceof AppError && error.code === 'storage_unavailable')
    return { faults: ['The storage does not respond: send the signal again once it does.'] };
  return { faults: ['An unexpected failure.'], cause: error };
}
