/**
 * Updates the lists of an app's connections when its registration changes: connections of the earlier registration are
 * then listed as `reconnect_needed`.
 */

import type { Events } from '../../shared/observability/events.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { keys } from '../../shared/storage/keys.ts';
import { allPages } from '../../shared/storage/paging.ts';
import type { ScheduledTask } from '../../shared/storage/scheduled-task.ts';
import type { Store } from '../../shared/storage/store.ts';
import { covers, isIssuedFor, type Registration, registrationOf } from '../connected-apps/registration.ts';
import { type ConnectionIndex, connectionOf } from './connection-index.ts';
import type { Grant } from './grant.ts';
import type { GrantStore } from './grant-store.ts';

const BATCH = 200;

export interface MovedAppsParts {
  store: Store;
  grants: Pick<GrantStore, 'loadStored'>;
  index: Pick<ConnectionIndex, 'update'>;
  apps: { list(): readonly ConnectedApp[] };
  events: Pick<Events, 'connectionsSetAside'>;
}

/** Creates the scheduled task. Only lists and counts depend on it: health is derived whenever a grant is read. */
export function createMovedApps({ store, grants, index, apps, events }: MovedAppsParts): ScheduledTask {
  const upToDate = new WeakSet<Registration>();

  /** @param listedBy the registration by which they are listed; connections that it set aside are already announced */
  const relist = async (app: ConnectedApp, listedBy: Registration | undefined): Promise<void> => {
    let count = 0;
    for await (const grant of grantsOf(store, grants, app.id)) {
      await index.update(grant);
      const { registration } = grant;
      if (!isIssuedFor(registration, app) && (!listedBy || covers(registration, listedBy))) count += 1;
    }
    if (count > 0) events.connectionsSetAside({ app: app.id, name: app.name, count });
  };

  return {
    name: 'list-connections-of-moved-apps',
    everyMilliseconds: 5_000,
    isDue: async () => apps.list().some((app) => !upToDate.has(registrationOf(app))),
    async work() {
      for (const app of apps.list()) {
        const registration = registrationOf(app);
        if (upToDate.has(registration)) continue;
        const key = keys.appRegistration(app.id);
        const value = JSON.stringify(registration);
        const storedValue = (await store.get(key))?.value;
        if (storedValue !== value) {
          await relist(app, storedValue === undefined ? undefined : JSON.parse(storedValue));
          // Stored last: if this process ends earlier, another one repeats the work.
          await store.write([{ put: key, value }]);
        }
        upToDate.add(registration);
      }
    },
  };
}

/** Counting stops here: an administrator only needs to know that there are many. */
const MAX_COUNTED = 1_000;

/**
 * Counts the connections of an app that a changed registration would set aside, since their tokens must not be sent to
 * its hosts. Connections that the present app cannot use either do not count.
 * @param changed the app as it would be
 * @param present the app as it is now; undefined for a new one
 * @returns at most 1,000
 */
export async function countSetAside(
  store: Store,
  grants: Pick<GrantStore, 'loadStored'>,
  changed: Parameters<typeof registrationOf>[0] & { id: string },
  present: ConnectedApp | undefined,
): Promise<number> {
  let count = 0;
  for await (const { registration } of grantsOf(store, grants, changed.id)) {
    if (isIssuedFor(registration, changed) || (present && !isIssuedFor(registration, present))) continue;
    count += 1;
    if (count === MAX_COUNTED) break;
  }
  return count;
}

/** Yields the grants of an app, without those that cannot be read. */
async function* grantsOf(store: Store, grants: Pick<GrantStore, 'loadStored'>, appId: string): AsyncGenerator<Grant> {
  for await (const items of allPages((options) => store.page(keys.connections('app', appId), options), BATCH)) {
    const loaded = await Promise.all(items.map(({ member }) => grants.loadStored(connectionOf(member).userId, appId)));
    for (const stored of loaded) if (stored && 'grant' in stored) yield stored.grant;
  }
}
