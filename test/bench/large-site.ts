/** A site for benchmarks whose storage has very many users. */
import { appOfFile } from '../support/apps.ts';
import { openSharedStorage, type SharedStorage } from '../support/fleet.ts';
import { missingRedis } from '../support/redis-server.ts';
import { print } from './effort.ts';
import { fillLargeStorage, ISSUER, LIFETIMES } from './large-storage.ts';
import { startGatehouseProcess } from './process.ts';
import { prepareGatehouse, reserveAddress, type Storage, type withAll } from './site.ts';

export const STORAGES: readonly Storage[] = missingRedis === undefined ? ['embedded', 'Redis'] : ['embedded'];
const LASTING_SESSIONS = {
  SESSION_IDLE_SECONDS: String(LIFETIMES.idleSeconds),
  SESSION_MAX_SECONDS: String(LIFETIMES.maxSeconds),
};

export type LargeSite = Awaited<ReturnType<typeof prepareLargeSite>>;
export type Keep = Parameters<Parameters<typeof withAll>[0]>[0];

/**
 * Fills a storage before any process starts.
 * @param parts `write`: adds further records before the storage is closed
 */
export async function prepareLargeSite(parts: {
  keep: Keep;
  storage: Storage;
  users: number;
  write?: (sharedStorage: SharedStorage, env: Record<string, string>) => Promise<void>;
}) {
  const { keep, storage, users, write } = parts;
  const address = await reserveAddress();
  const site = keep(
    await prepareGatehouse({ address, storage, issuer: ISSUER, platformUrl: 'https://api.bench.example' }),
  );
  const env: Record<string, string> = { ...site.env, ...LASTING_SESSIONS };
  // The first start creates the records of an empty storage.
  await (await startGatehouseProcess(env)).stop();
  const sharedStorage = await openSharedStorage(env);
  const app = appOfFile(env);
  const apps = [app, { ...app, id: 'calendar' }] as const;
  await fillLargeStorage({ ...sharedStorage, users, apps, advance: (done) => print(`\r${storage}: ${done} users`) });
  await write?.(sharedStorage, env);
  await sharedStorage.store.close();
  print('\n');
  return { url: site.url, redis: site.redis, env };
}
