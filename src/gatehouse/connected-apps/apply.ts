/** Changes the registered apps to match a file: first a plan with every fault, then one write for all of them. */
import type { InputFault } from '../../shared/config/input-faults.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { AppRegistry, RegisteredApp } from './app-registry.ts';
import {
  type CountSetAside,
  changedFields,
  movedFaults,
  needsSecret,
  revertMove,
  secretAfter,
  sharedIssuerFaults,
} from './change-rules.ts';
import { addressFaults } from './registration-rules.ts';

export interface PlannedApp {
  app: ConnectedApp;
  action: 'create' | 'change' | 'leave';
  /** Names of the fields that a change affects. */
  changed: readonly string[];
  /** Undefined for a new app. */
  before: RegisteredApp | undefined;
}

export interface AppPlan {
  apps: readonly PlannedApp[];
  /** One sentence for each fault, which names the app and the field. A plan with faults must not be applied. */
  faults: readonly string[];
}

/** Runs the checks of the administration for each change, against the apps as they will be. Changes nothing. */
export async function planApps(
  parts: {
    registry: Pick<AppRegistry, 'find' | 'isFromFile' | 'isUnreadable'>;
    /** The apps as they are now. */
    apps: readonly ConnectedApp[];
    examine: Outbound['examine'];
    countSetAside: CountSetAside;
  },
  inFile: readonly ConnectedApp[],
): Promise<AppPlan> {
  const { registry, examine, countSetAside } = parts;
  // A secret that the method does not use is not stored.
  const planned = inFile.map((app) => (needsSecret(app) ? app : { ...app, clientSecret: undefined }));
  const changeable = planned.filter(({ id }) => !registry.isFromFile(id));
  const otherApps = parts.apps.filter(({ id }) => changeable.every((app) => app.id !== id));
  const appsAfter = [...otherApps, ...changeable];

  const planOne = async (app: ConnectedApp): Promise<{ planned?: PlannedApp; faults: string[] }> => {
    const refuse = (detail: string) => ({ faults: [`${app.id}: ${detail}`] });
    if (registry.isFromFile(app.id)) return refuse('it is in CONNECTED_APPS_FILE. Change it there.');
    if (await registry.isUnreadable(app.id))
      return refuse('the stored app cannot be opened, because its key is lost. Delete it in the administration first.');
    const before = await registry.find(app.id);
    const faults = [
      ...(await addressFaults(app, examine)),
      ...sharedIssuerFaults(app, appsAfter),
      ...(await movedFaults(before?.app, app, countSetAside)),
    ];
    const secret = before?.app.clientSecret === app.clientSecret ? undefined : app.clientSecret;
    const changed = before ? changedFields(before.app, app, secret) : [];
    const action = before === undefined ? 'create' : changed.length > 0 ? 'change' : 'leave';
    return { planned: { app, action, changed, before }, faults: faults.map((fault) => inWords(app.id, fault)) };
  };

  const results = await Promise.all(planned.map(planOne));
  return {
    apps: results.flatMap(({ planned }) => (planned ? [planned] : [])),
    faults: results.flatMap(({ faults }) => faults),
  };
}

/**
 * Writes the planned changes.
 * @returns the ids of apps that were changed back, because a user has connected them since the plan; all others match
 *   the file. Undefined, with nothing changed, if one of the apps was changed or removed since the plan
 */
export async function applyApps(
  parts: { registry: Pick<AppRegistry, 'putAll' | 'find' | 'replace'>; countSetAside: CountSetAside },
  apps: readonly PlannedApp[],
): Promise<string[] | undefined> {
  const { registry, countSetAside } = parts;
  const changes = apps.filter(({ action }) => action !== 'leave');
  const isPut = await registry.putAll(
    changes.map(({ app: { clientSecret, ...registration }, before }) => {
      const enteredSecret = clientSecret === before?.app.clientSecret ? undefined : clientSecret;
      return { registration, before, secret: before ? secretAfter(registration, enteredSecret) : clientSecret };
    }),
  );
  if (!isPut) return undefined;
  const revertedIds: string[] = [];
  for (const { app, before } of changes)
    if (before && (await revertMove(registry, before, app, countSetAside)).length > 0) revertedIds.push(app.id);
  return revertedIds;
}

function inWords(id: string, { pointer, detail }: InputFault): string {
  return `${id}, ${pointer.slice(1)}: ${detail}`;
}
