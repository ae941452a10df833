/** Several real processes on one Redis. */
import { afterEach, beforeEach } from 'vitest';
import { createRedisStore } from '../../../../src/shared/storage/redis/store.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { IN_MEMORY, missingRedis, type RedisServer, startRedis } from '../../../support/redis-server.ts';
import { testProcesses } from '../processes-suite.ts';

let server: RedisServer | undefined;

beforeEach(async (context) => {
  skipIfMissing(context, missingRedis);
  server = await startRedis(IN_MEMORY);
});

afterEach(() => server?.dispose());

const url = () => server?.url ?? '';
testProcesses({ location: url, open: () => createRedisStore({ url: url(), durability: 'none' }) });
