/**
 * Runs as a separate process. Each line of input is a task: fifty concurrent lookups for one user. The outcomes are
 * printed as a line of JSON.
 */
import { createInterface } from 'node:readline';
import { createBinClient } from '../../src/gatehouse/bin/bin-client.ts';
import { createBinLookup } from '../../src/gatehouse/bin/lookup.ts';
import { createBinQuota } from '../../src/gatehouse/bin/quota.ts';
import { createAddressPolicy } from '../../src/shared/outbound/address-policy.ts';
import { createOutbound } from '../../src/shared/outbound/outbound.ts';
import { createRedisStore } from '../../src/shared/storage/redis/store.ts';
import { createSqliteStore } from '../../src/shared/storage/sqlite/store.ts';
import { bin, datasetOf } from './bins.ts';

export interface LookupTask {
  /** URL of a Redis, or the folder of a database. */
  storage: string;
  /** The URL of the BIN lookup service. */
  url: string;
  monthlyQuota: number;
  /** The first of fifty BINs. */
  first: string;
  /** `same`: the first BIN fifty times. `one left`: the user has one call left for today. */
  variant?: 'same' | 'one left';
}

async function outcomesOf({ storage, url, monthlyQuota, first, variant }: LookupTask): Promise<string[]> {
  const clock = Date.now;
  const store = storage.startsWith('redis:')
    ? await createRedisStore({ url: storage, durability: 'aof', deadlineMilliseconds: 10_000 })
    : await createSqliteStore({ directory: storage, deadlineMilliseconds: 10_000 });
  const outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  const userDailyQuota = variant === 'one left' ? 1 : monthlyQuota;
  const lookup = createBinLookup({
    builtIn: () => datasetOf(),
    client: createBinClient({ url, auth: 'bearer', fetch: outbound.fetch, store, clock }),
    quota: createBinQuota({ store, clock, monthlyQuota, userReserve: 0, userDailyQuota }),
    store,
    clock,
  });
  const numbers = Array.from({ length: 50 }, (_, index) =>
    bin(String(Number(first) + (variant === 'same' ? 0 : index))),
  );
  const caller = { kind: 'user', id: variant ?? 'anyone' } as const;
  const results = await Promise.all(numbers.map((number) => lookup.lookUp(number, caller)));
  await outbound.close();
  await store.close();
  return results.map((result) => result.problem ?? result.source);
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await outcomesOf(JSON.parse(line) as LookupTask))}\n`);
}
