/** Makes the users: their store, and the changes of a user as a whole. */

import type { Chore } from '../../shared/storage/chore.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { CheckOptions } from '../grants/connection-check.ts';
import type { Grants } from '../grants/grants.ts';
import { createUserLifecycle, type LifecycleParts, type UserLifecycle } from './user-lifecycle.ts';
import { createUserStore, type UserStore } from './user-store.ts';

export interface Users {
  store: UserStore;
  lifecycle: UserLifecycle;
  chores: readonly Chore[];
}

/** @param parts `sessions`, `signInRecords`: what other rooms store about a user */
export function createUsers(parts: {
  storage: { store: Store };
  grants: Pick<Grants, 'connections' | 'links' | 'checks'>;
  sessions: { ofUsers: LifecycleParts['sessions'] };
  signInRecords: LifecycleParts['signIns'];
  charge: CheckOptions['charge'];
  events: LifecycleParts['events'];
  clock: () => number;
}): Users {
  const { storage, grants, sessions, signInRecords: signIns, charge, events, clock } = parts;
  const { store } = storage;
  const users = createUserStore({ store, clock });
  const { connections, links } = grants;
  const lifecycle = createUserLifecycle({
    store,
    users,
    connections,
    links,
    sessions: sessions.ofUsers,
    signIns,
    events,
    clock,
  });
  const chores: readonly Chore[] = [
    ...grants.checks({ isDisabled: (id) => users.isDisabled(id), charge }),
    { name: 'finish-erasures', everyMilliseconds: 30_000, work: lifecycle.finishErasures },
  ];
  return { store: users, lifecycle, chores };
}
