/** Deletes records of sign-ins that are too old or too many; no address can displace the records of others (R95). */
import { callerNetwork } from '../../shared/config/networks.ts';
import { keys } from '../../shared/storage/keys.ts';
import { allPages } from '../../shared/storage/paging.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_MS } from '../../shared/time.ts';
import type { SignInRecord } from './attempt.ts';

export const RECORD_DAYS = 30;
const BATCH = 100;

/** @param parts `maxRecords`: of unfinished attempts, and of all */
export function createTrim(parts: {
  store: Pick<Store, 'count' | 'page' | 'write'>;
  clock: () => number;
  maxRecords: { open: number; all: number };
  load: (id: string) => Promise<{ record: SignInRecord } | undefined>;
  /** Deletes the records of a list with these ids. */
  drop: (index: string, ids: readonly string[]) => Promise<void>;
}): () => Promise<void> {
  const { store, clock, maxRecords, load, drop } = parts;

  const dropOld = async (index: string): Promise<void> => {
    const horizon = clock() - RECORD_DAYS * DAY_MS;
    for (;;) {
      const { items } = await store.page(index, { limit: BATCH });
      const old = items.filter(({ score }) => score < horizon).map(({ member }) => member);
      await drop(index, old);
      if (old.length < BATCH) return;
    }
  };

  /** The oldest first, each with the network that it was started from. */
  const withNetworks = async (index: string): Promise<{ id: string; network: string }[]> => {
    const all: { id: string; network: string }[] = [];
    for await (const items of allPages((options) => store.page(index, options), BATCH)) {
      const attempts = items.map(async ({ member: id }) => {
        const { record } = (await load(id)) ?? {};
        return { id, network: callerNetwork(record?.address ?? 'unknown') };
      });
      all.push(...(await Promise.all(attempts)));
    }
    return all;
  };

  /** Deletes the oldest attempts of the networks that have the most. */
  const dropSurplus = async (index: string, limit: number): Promise<void> => {
    if ((await store.count(index)) <= limit) return;
    const attempts = await withNetworks(index);
    const counts = new Map<string, number>();
    for (const { network } of attempts) counts.set(network, (counts.get(network) ?? 0) + 1);
    const share = fairShare([...counts.values()], limit);
    const surplus: string[] = [];
    for (const { id, network } of attempts) {
      const count = counts.get(network) ?? 0;
      if (count <= share || attempts.length - surplus.length === limit) continue;
      counts.set(network, count - 1);
      surplus.push(id);
    }
    await drop(index, surplus);
  };

  return async () => {
    for (const list of ['open', 'all'] as const) {
      await dropOld(keys.signIns(list));
      await dropSurplus(keys.signIns(list), maxRecords[list]);
    }
  };
}

/** How many attempts each network may keep, so that at most `limit` remain. */
function fairShare(counts: readonly number[], limit: number): number {
  const ascending = counts.toSorted((left, right) => left - right);
  let remaining = limit;
  for (const [index, count] of ascending.entries()) {
    const share = Math.floor(remaining / (ascending.length - index));
    if (count > share) return share;
    remaining -= count;
  }
  return Number.POSITIVE_INFINITY;
}
