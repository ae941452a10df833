/** Owns a process of its own that looks up fifty different BINs at once, or one fifty times, and prints the outcomes as JSON. */
import { createBinClient } from '../../src/bin/bin-client.ts';
import { createBinLookup } from '../../src/bin/lookup.ts';
import { createBinQuota } from '../../src/bin/quota.ts';
import { createAddressPolicy } from '../../src/outbound/address-policy.ts';
import { createOutbound } from '../../src/outbound/outbound.ts';
import { createRedisStore } from '../../src/storage/redis-store.ts';
import { createSqliteStore } from '../../src/storage/sqlite-store.ts';
import { bin, datasetOf } from './bins.ts';

const [storage = '', url = '', limit = '', first = '', same] = process.argv.slice(2);
const clock = Date.now;
const store = storage.startsWith('redis:')
  ? await createRedisStore({ url: storage, durability: 'aof', deadlineMilliseconds: 10_000 })
  : await createSqliteStore({ directory: storage, deadlineMilliseconds: 10_000 });
const outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
const lookup = createBinLookup({
  builtIn: () => datasetOf(),
  client: createBinClient({ url, auth: 'bearer', fetch: outbound.fetch, store, clock }),
  quota: createBinQuota({ store, limit: Number(limit), clock }),
  store,
  clock,
});
const numbers = Array.from({ length: 50 }, (_, index) => bin(String(Number(first) + (same ? 0 : index))));
const answers = await Promise.all(numbers.map((number) => lookup.lookUp(number)));
process.stdout.write(JSON.stringify(answers.map((answer) => answer.problem ?? answer.source)));
await outbound.close();
await store.close();
