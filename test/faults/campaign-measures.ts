/** What a campaign measures before its faults and after them: it has to stay flat. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DATABASE_FILE } from '../../src/storage/sqlite/store.ts';
import type { CampaignSite } from './campaign-site.ts';

/** Of the process that lives from the start to the end of the campaign, and of the storage. */
export interface Measures {
  /** Resident bytes. */
  memory: number;
  /** Open file descriptors. */
  descriptors: number;
  /** Bytes. */
  storage: number;
  /** Milliseconds that half of the requests for a thread took at most; undefined if none was served. */
  latency: number | undefined;
}

export function measure(site: CampaignSite, latency: number | undefined): Measures {
  const process = `/proc/${site.members[0]?.program.pid}`;
  const [, kilobytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`${process}/status`, 'utf8')) ?? [];
  return {
    memory: Number(kilobytes) * 1_024,
    descriptors: readdirSync(`${process}/fd`).length,
    storage: storedBytes(site),
    latency,
  };
}

export function storedBytes({ redis, dataDirectory }: CampaignSite): number {
  if (redis) return Number(/^used_memory_dataset:(\d+)/m.exec(redis.ask('INFO', 'memory'))?.[1]);
  return statSync(join(dataDirectory, DATABASE_FILE)).size;
}
