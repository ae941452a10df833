/** Assembles the room: the user store and what can be done to a user as a whole. */
import type { Grants } from '../grants/grants.ts';
import type { Store } from '../storage/store.ts';
import { createUserLifecycle, type UserLifecycle } from './user-lifecycle.ts';
import { createUserStore, type UserStore } from './user-store.ts';

type LifecycleParts = Parameters<typeof createUserLifecycle>[0];

export interface Users {
  store: UserStore;
  lifecycle: UserLifecycle;
}

/** @param parts `sessions`, `signInRecords`: what other rooms store about a user */
export function createUsers(parts: {
  storage: { store: Store };
  grants: Pick<Grants, 'connections'>;
  sessions: { ofUsers: LifecycleParts['sessions'] };
  signInRecords: LifecycleParts['signIns'];
  clock: () => number;
}): Users {
  const { storage, grants, sessions, signInRecords, clock } = parts;
  const { store } = storage;
  const users = createUserStore({ store, clock });
  return {
    store: users,
    lifecycle: createUserLifecycle({
      store,
      users,
      connections: grants.connections,
      sessions: sessions.ofUsers,
      signIns: signInRecords,
    }),
  };
}
