/** Puts the stored data where a program finds it: a copy of the SQLite files, or a Redis of its own. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Redis } from 'ioredis';
import { DATABASE_FILE } from '../../src/shared/storage/sqlite/store.ts';
import type { StoreKind } from '../support/fleet.ts';
import { IN_MEMORY, startRedis } from '../support/redis-server.ts';
import type { Facts } from './scenario.ts';

export interface StoredData {
  facts: Facts;
  /** The settings of the storages of Gatehouse and of the BIN lookup service. */
  env: Record<string, string>;
  binEnv: Record<string, string>;
  close(): Promise<void>;
}

const read = (name: string) => readFileSync(join(import.meta.dirname, name));
const factsOf = (kind: StoreKind): Facts => JSON.parse(read(`${kind.toLowerCase()}.json`).toString());

export async function openStoredData(kind: StoreKind): Promise<StoredData> {
  return kind === 'SQLite' ? copySqlite() : startFilledRedis();
}

async function copySqlite(): Promise<StoredData> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-released-store-'));
  const copy = (name: string) => {
    mkdirSync(join(folder, name), { mode: 0o700 });
    writeFileSync(join(folder, name, DATABASE_FILE), gunzipSync(read(`${name}.sqlite.gz`)), { mode: 0o600 });
    return { DATA_DIR: join(folder, name) };
  };
  const close = async () => rmSync(folder, { recursive: true, force: true });
  return { facts: factsOf('SQLite'), env: copy('gatehouse'), binEnv: copy('bin'), close };
}

async function startFilledRedis(): Promise<StoredData> {
  const redis = await startRedis(IN_MEMORY);
  const client = new Redis(redis.url);
  const entries: [name: string, lifetimeMs: number, dump: string][] = JSON.parse(
    gunzipSync(read('redis.json.gz')).toString(),
  );
  // Without a lifetime, PTTL is -1, and RESTORE takes 0.
  for (const [name, lifetimeMs, dump] of entries)
    await client.restore(name, Math.max(lifetimeMs, 0), Buffer.from(dump, 'base64'));
  await client.quit();
  const env = { REDIS_URL: redis.url, REDIS_DURABILITY: 'none' };
  return { facts: factsOf('Redis'), env, binEnv: env, close: redis.dispose };
}
