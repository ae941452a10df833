/** Deletes records of sign-ins that are too old or too many; no address can displace the records of others (R95). */
import { callerNetwork } from '../../shared/config/networks.ts';
import { keys } from '../../shared/storage/keys.ts';
import { allPages } from '../../shared/storage/paging.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_MS } from '../../shared/time.ts';
import type { SignInRecord } from './attempt.ts';

export const RECORD_DAYS = 30;
const BATCH = 100;

export function createTrim(parts: {
  store: Pick<Store, 'count' | 'page' | 'write'>;
  clock: () => number;
  /** `open`: limit of unfinished attempts. `all`: limit of all attempts. */
  maxRecords: { open: number; all: number };
  load: (id: string) => Promise<{ record: SignInRecord } | undefined>;
  /** Deletes the records with these ids, and their entries in every list. */
  drop: (index: string, ids: readonly string[]) => Promise<void>;
}): () => Promise<void> {
  const { store, clock, maxRecords, load, drop } = parts;

  const dropExpired = async (index: string): Promise<void> => {
    const horizon = clock() - RECORD_DAYS * DAY_MS;
    for (;;) {
      const { items } = await store.page(index, { limit: BATCH });
      const expiredIds = items.filter(({ score }) => score < horizon).map(({ member }) => member);
      await drop(index, expiredIds);
      if (expiredIds.length < BATCH) return;
    }
  };

  /** Returns the attempts of a list, oldest first, each with the network that started it. */
  const withNetworks = async (index: string): Promise<{ id: string; network: string }[]> => {
    const attempts: { id: string; network: string }[] = [];
    for await (const items of allPages((options) => store.page(index, options), BATCH)) {
      const batch = items.map(async ({ member: id }) => {
        const { record } = (await load(id)) ?? {};
        return { id, network: callerNetwork(record?.address ?? 'unknown') };
      });
      attempts.push(...(await Promise.all(batch)));
    }
    return attempts;
  };

  /** Deletes the oldest attempts of the networks that have the most. */
  const dropSurplus = async (index: string, limit: number): Promise<void> => {
    if ((await store.count(index)) <= limit) return;
    const attempts = await withNetworks(index);
    const counts = new Map<string, number>();
    for (const { network } of attempts) counts.set(network, (counts.get(network) ?? 0) + 1);
    const share = fairShare([...counts.values()], limit);
    const surplusIds: string[] = [];
    for (const { id, network } of attempts) {
      const count = counts.get(network) ?? 0;
      if (count <= share || attempts.length - surplusIds.length === limit) continue;
      counts.set(network, count - 1);
      surplusIds.push(id);
    }
    await drop(index, surplusIds);
  };

  return async () => {
    for (const list of ['open', 'all'] as const) {
      await dropExpired(keys.signIns(list));
      await dropSurplus(keys.signIns(list), maxRecords[list]);
    }
  };
}

/** Returns the number of attempts that each network may keep, so that at most `limit` remain. */
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
