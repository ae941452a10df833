/** Owns disconnecting everybody from one app: done by one process in the background, gone on with after a restart, and shown as it goes. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { By } from '../observability/events.ts';
import { keys } from '../storage/keys.ts';
import { createLeases } from '../storage/lease.ts';
import type { Store } from '../storage/store.ts';
import type { ConnectionIndex } from './connection-index.ts';
import type { Connections, DisconnectAnswer } from './connections.ts';

/** Times in milliseconds since the epoch. */
export interface DisconnectProgress {
  app: string;
  startedAt: number;
  finishedAt?: number | undefined;
  /** Connections that there were at the start. */
  total: number;
  done: number;
  /** Of those done: what the provider answered. */
  answers: Partial<Record<DisconnectAnswer, number>>;
}

export interface DisconnectEveryone {
  /** Begins, or answers how far it is where it is under way. Those who connect later stay connected. */
  start(appId: string, by: By): Promise<DisconnectProgress>;
  progress(appId: string): Promise<DisconnectProgress | undefined>;
  /** Goes on with what a process that has ended left. */
  resume(): Promise<void>;
  /** Resolves once nothing is under way in this process. */
  settle(): Promise<void>;
}

interface Job extends DisconnectProgress {
  by: By;
}

const AT_ONCE = 10;
const LEASE_MILLISECONDS = 15_000;
const KEPT_SECONDS = 30 * 86_400;

export function createDisconnectEveryone(parts: {
  store: Store;
  index: ConnectionIndex;
  connections: Pick<Connections, 'end' | 'forget'>;
  findApp: (id: string) => ConnectedApp | undefined;
  clock: () => number;
}): DisconnectEveryone {
  const { store, index, connections, findApp, clock } = parts;
  const leases = createLeases({ store, milliseconds: LEASE_MILLISECONDS });
  const underWay = new Set<Promise<unknown>>();
  let stopping = false;

  const load = async (appId: string): Promise<{ job: Job | undefined; version: number }> => {
    const stored = await store.get(keys.disconnectJob(appId));
    return { job: stored && (JSON.parse(stored.value) as Job), version: stored?.version ?? 0 };
  };

  const save = (job: Job, ifVersion: number): Promise<boolean> =>
    store.write([
      { put: keys.disconnectJob(job.app), value: JSON.stringify(job), lifetimeSeconds: KEPT_SECONDS, ifVersion },
      job.finishedAt === undefined
        ? { index: keys.disconnectJobs, add: job.app, score: job.startedAt }
        : { index: keys.disconnectJobs, remove: job.app },
    ]);

  const endOne = async (userId: string, { app: appId, by }: Job): Promise<DisconnectAnswer | undefined> => {
    const app = findApp(appId);
    const answer = app ? await connections.end(userId, app, { by }) : await connections.forget(userId, appId, { by });
    if (answer === undefined) await index.drop({ userId, appId });
    return answer?.revocation;
  };

  /** Answers whether there is more to do. */
  const endSome = async (appId: string): Promise<boolean> => {
    const { job, version } = await load(appId);
    if (!job || job.finishedAt !== undefined) return false;
    const batch = await index.oldest(appId, AT_ONCE, job.startedAt);
    const settled = await Promise.allSettled(batch.map(({ userId }) => endOne(userId, job)));
    const ended = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const answers = { ...job.answers };
    for (const answer of ended) if (answer !== undefined) answers[answer] = (answers[answer] ?? 0) + 1;
    const done = job.done + ended.filter((answer) => answer !== undefined).length;
    const finished = batch.length === 0 ? { finishedAt: clock() } : {};
    // A process that was stopped for long may find another at it, and leaves it to that one.
    const saved = await save({ ...job, ...finished, done, total: Math.max(job.total, done), answers }, version);
    // Where nobody could be disconnected the storage is in trouble: it is gone on with at the next turn.
    return saved && ended.length > 0;
  };

  const endAll = async (appId: string): Promise<void> => {
    let more = true;
    while (more && !stopping) more = await endSome(appId);
  };

  const work = (appId: string): Promise<unknown> => {
    const turn = leases
      .hold(keys.choreLease(`disconnect-everyone:${appId}`), () => endAll(appId))
      .catch(() => undefined);
    underWay.add(turn);
    return turn.finally(() => underWay.delete(turn));
  };

  return {
    async start(appId, by) {
      for (;;) {
        const { job, version } = await load(appId);
        const begun: Job =
          job && job.finishedAt === undefined
            ? job
            : { app: appId, startedAt: clock(), total: await index.count(appId), done: 0, answers: {}, by };
        if (begun !== job && !(await save(begun, version))) continue;
        void work(appId);
        return told(begun);
      }
    },

    async progress(appId) {
      const { job } = await load(appId);
      return job && told(job);
    },

    async resume() {
      const { items } = await store.page(keys.disconnectJobs, { limit: 100 });
      await Promise.all(items.map(({ member }) => work(member)));
    },

    async settle() {
      stopping = true;
      await Promise.all(underWay);
    },
  };
}

function told({ by: _by, ...progress }: Job): DisconnectProgress {
  return progress;
}
