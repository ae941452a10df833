/** Creates the store of users, and the actions on a whole user: sign out everywhere, disable, enable and delete. */
import { AppError } from '../../shared/errors.ts';
import type { Events } from '../../shared/observability/events.ts';
import { retryWhileUnavailable } from '../../shared/storage/retry.ts';
import type { ScheduledTask } from '../../shared/storage/scheduled-task.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { ConnectLinks } from '../grants/connect-links.ts';
import type { CheckOptions } from '../grants/connection-check.ts';
import type { Connections, Disconnected, EndedBy } from '../grants/connections.ts';
import type { Grants } from '../grants/grants.ts';
import { createUserStore, type User, type UserStore } from './user-store.ts';

export interface Users {
  store: UserStore;
  lifecycle: UserLifecycle;
  scheduledTasks: readonly ScheduledTask[];
}

/** @param parts `sessions`, `signInRecords`: the data that other modules store about a user */
export function createUsers(parts: {
  storage: { store: Store };
  grants: Pick<Grants, 'connections' | 'links' | 'createCheckTasks'>;
  sessions: { ofUsers: LifecycleParts['sessions'] };
  signInRecords: { store: LifecycleParts['signIns'] };
  chargeCheck: CheckOptions['chargeCheck'];
  events: LifecycleParts['events'];
  clock: () => number;
}): Users {
  const { storage, grants, sessions, signInRecords, chargeCheck, events, clock } = parts;
  const { store } = storage;
  const users = createUserStore({ store, clock });
  const { connections, links } = grants;
  const lifecycle = createUserLifecycle({
    store,
    users,
    connections,
    links,
    sessions: sessions.ofUsers,
    signIns: signInRecords.store,
    events,
    clock,
  });
  const scheduledTasks: readonly ScheduledTask[] = [
    ...grants.createCheckTasks({ isDisabled: (id) => users.isDisabled(id), chargeCheck }),
    { name: 'finish-erasures', everyMilliseconds: 30_000, work: lifecycle.finishErasures },
  ];
  return { store: users, lifecycle, scheduledTasks };
}

type EndedConnection = { app: string } & Disconnected;

/** How long a deletion waits for all providers together. Revocations that are not confirmed by then are pending. */
const MAX_WAIT_MS = 10_000;
/** A deletion that takes longer than this was interrupted. */
const RESUME_AFTER_MS = 60_000;

interface LifecycleParts {
  store: Pick<Store, 'ready'>;
  users: UserStore;
  connections: Pick<Connections, 'list' | 'dropIds' | 'end'>;
  links: Pick<ConnectLinks, 'revokeAll'>;
  /** Ends all sessions of a user. */
  sessions: { endAll(userId: string, isDue?: () => Promise<boolean>): Promise<void> };
  /** Deletes the records of the user's sign-ins: all, or those that began by `begunBy`. */
  signIns: { forgetUser(user: { id: string; email?: string | undefined }, begunBy?: number): Promise<void> };
  events: Pick<Events, 'userErased'>;
  clock: () => number;
}

export interface UserLifecycle {
  /**
   * Disables the user. Sessions are ended before and after the user is marked: a kill in between leaves no disabled
   * user with a session, and a sign-in in progress either sees the mark or loses its session.
   */
  disable(userId: string): Promise<User | undefined>;

  enable(userId: string): Promise<User | undefined>;

  /**
   * Ends all sessions. Records the time first, so that a connection or sign-in in progress stores nothing afterwards.
   */
  signOut(userId: string): Promise<void>;

  /**
   * Marks the user as being deleted: nothing is stored for the user from now on. Call `erase` next; otherwise a
   * scheduled task finishes the deletion.
   */
  beginErasure(userId: string): Promise<void>;

  /**
   * Revokes and deletes the connections, ends sessions and connect links, and deletes everything else. Audit entries
   * stay for their retention time. On embedded storage the deletion survives a power cut once this resolves; on Redis
   * that depends on its persistence settings.
   * @throws AppError `storage_unavailable`, which says what is not deleted yet
   */
  erase(userId: string, by: EndedBy): Promise<EndedConnection[]>;

  /** Finishes deletions that were interrupted by a failure or by the end of a process. */
  finishErasures(): Promise<void>;
}

export function createUserLifecycle(parts: LifecycleParts): UserLifecycle {
  const { store, users, connections, links, sessions, signIns, events, clock } = parts;

  /**
   * Ends and deletes, by id, only data that was read while this deletion was in progress. It stops if another process
   * has finished the deletion and the user has signed in again: new data stays, even if another deletion follows.
   * @param mark the mark of the deletion; undefined if the user is not marked
   * @param remaining the stages that are not finished; updated by this function
   * @param signal as for `Connections.end`
   */
  const erase = async (
    userId: string,
    mark: number | undefined,
    by: EndedBy,
    remaining: string[],
    signal = AbortSignal.timeout(MAX_WAIT_MS),
  ): Promise<EndedConnection[]> => {
    const isDue = async (): Promise<boolean> => {
      const user = await users.find(userId);
      return user === undefined || (mark !== undefined && user.erasingAt === mark);
    };
    const ended: EndedConnection[] = [];
    // Sessions end first, since the rest may take as long as the providers.
    await sessions.endAll(userId, isDue);
    remaining.shift();
    const userConnections = await connections.list(userId);
    const countRemaining = () => remaining.splice(0, 1, connectionsOf(userConnections.length - ended.length));
    countRemaining();
    if (!(await isDue())) return ended;
    // Ids are deleted before the grants: without the grants, nothing shows which ids remain.
    await connections.dropIds(userConnections);
    for (const { id, app } of userConnections) {
      countRemaining();
      if (!(await isDue())) return ended;
      const disconnected = await connections.end(userId, app, { ...by, only: { id } }, signal);
      ended.push({ app, ...(disconnected ?? { id, revocation: 'unconfirmed' }) });
    }
    remaining.shift();
    const user = await users.find(userId);
    if (!(await isDue())) return ended;
    const identifiers = { id: userId, email: user?.email };
    const removedAfter = clock();
    await signIns.forgetUser(identifiers);
    remaining.shift();
    if (!(await isDue())) return ended;
    await links.revokeAll('user', userId);
    remaining.shift();
    // Sign-in records are deleted without a flush to disk, so flush before the user is deleted: if that fails, the user
    // still exists and the deletion can be repeated.
    await store.ready();
    if (!(await users.remove(userId, mark))) return ended;
    // Deletes the records of sign-ins that ended in the meantime.
    remaining.splice(0, 1, SIGN_IN_RECORDS);
    await signIns.forgetUser(identifiers, removedAfter);
    remaining.shift();
    events.userErased({ userId, by: by.by, origin: by.origin });
    // Everything is deleted. If this fails, a scheduled task repeats it.
    if (mark !== undefined) await users.endErasure({ id: userId, mark }).catch(() => undefined);
    return ended;
  };

  return {
    async disable(userId) {
      await sessions.endAll(userId);
      const user = await users.setDisabled(userId, true);
      if (user) await Promise.all([sessions.endAll(userId), links.revokeAll('user', userId)]);
      return user;
    },

    enable: (userId) => users.setDisabled(userId, false),

    async signOut(userId) {
      await users.noteSignOutEverywhere(userId);
      // Retried here: the session of this request may have ended already, so the user could not repeat the request.
      await retryWhileUnavailable(() => sessions.endAll(userId), 5_000);
    },

    beginErasure: users.beginErasure,

    async erase(userId, by) {
      const remaining = [...STAGES];
      const user = await users.find(userId);
      return erase(userId, user?.erasingAt, by, remaining).catch((cause: unknown) => {
        throw unfinished(cause, remaining);
      });
    },

    async finishErasures() {
      const by = { kind: 'system' } as const;
      const signal = AbortSignal.timeout(MAX_WAIT_MS);
      for (const erasure of await users.erasures(clock() - RESUME_AFTER_MS)) {
        const { id: userId, mark } = erasure;
        const user = await users.find(userId);
        if (user && user.erasingAt !== mark) {
          // If the first sign-in is later, the user was deleted and has signed in again. Otherwise the deletion never
          // marked the user.
          if (user.firstSignInAt > mark) events.userErased({ userId, by });
          await users.endErasure(erasure);
        } else {
          // A deletion that fails is repeated later, and a provider that hangs does not delay the other deletions.
          await erase(userId, mark, { by }, [], signal).catch(() => undefined);
        }
      }
    },
  };
}

const SIGN_IN_RECORDS = 'sign-in records';
/** The stages of a deletion, in order. */
const STAGES = ['sessions', 'connections', SIGN_IN_RECORDS, 'connect links', 'name and e-mail address'];

const connectionsOf = (count: number) => `${count} connection${count === 1 ? '' : 's'}`;

function unfinished(cause: unknown, remaining: readonly string[]): unknown {
  if (!(cause instanceof AppError) || cause.code !== 'storage_unavailable') return cause;
  const detail = `The deletion has begun, but the storage did not respond. Not deleted yet: ${remaining.join(', ')}. Gatehouse finishes the deletion within two minutes after the storage responds again.`;
  return new AppError('storage_unavailable', { detail, cause, retryAfterSeconds: cause.retryAfterSeconds });
}
