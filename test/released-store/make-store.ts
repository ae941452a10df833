/**
 * Makes the stored data of a release: `sh src/with-node.sh node test/released-store/make-store.ts`. Takes a minute, and
 * needs redis-server and the ports of `deployment.ts`.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { Redis } from 'ioredis';
import { createSqliteStore, DATABASE_FILE } from '../../src/shared/storage/sqlite/store.ts';
import { IN_MEMORY, startRedis } from '../support/redis-server.ts';
import { fillStorage } from './scenario.ts';

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-released-store-'));
const write = (name: string, content: string | Buffer) => writeFileSync(join(import.meta.dirname, name), content);
const compressed = (content: string | Buffer) => gzipSync(content, { level: 9 });

try {
  const data = { gatehouse: join(folder, 'sqlite'), bin: join(folder, 'bin') };
  const facts = await fillStorage({
    env: { DATA_DIR: data.gatehouse },
    binEnv: { DATA_DIR: data.bin },
    directory: join(folder, 'files'),
  });
  for (const [name, directory] of Object.entries(data)) {
    // Copies the log into the file.
    await (await createSqliteStore({ directory })).close();
    write(`${name}.sqlite.gz`, compressed(readFileSync(join(directory, DATABASE_FILE))));
  }
  write('sqlite.json', `${JSON.stringify(facts, undefined, 2)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

const redis = await startRedis(IN_MEMORY);
try {
  const env = { REDIS_URL: redis.url };
  const facts = await fillStorage({
    env: { ...env, REDIS_DURABILITY: 'none' },
    binEnv: { ...env, REDIS_DURABILITY: 'none' },
    directory: join(folder, 'files'),
  });
  const client = new Redis(redis.url);
  const names = (await client.keys('*')).toSorted();
  const entries = await Promise.all(
    names.map(async (name) => [name, await client.pttl(name), (await client.dumpBuffer(name))?.toString('base64')]),
  );
  await client.quit();
  write('redis.json.gz', compressed(JSON.stringify(entries)));
  write('redis.json', `${JSON.stringify(facts, undefined, 2)}\n`);
} finally {
  await redis.dispose();
  rmSync(folder, { recursive: true, force: true });
}
