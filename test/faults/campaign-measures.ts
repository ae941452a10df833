/** What a campaign measures before its faults and after them: it has to stay flat. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DATABASE_FILE } from '../../src/storage/sqlite/store.ts';
import { median } from '../bench/load.ts';
import { type Measured, startProcess } from '../bench/process.ts';
import { ask } from '../support/ask.ts';
import type { Journal } from './campaign-journal.ts';
import type { CampaignSite } from './campaign-site.ts';

const PAUSE_MILLISECONDS = 50;

/** Of the process that lives from the start to the end of the campaign, and of the storage. */
export interface Measures {
  /** Resident bytes. */
  memory: number;
  /** Open file descriptors. */
  descriptors: number;
  /** Bytes. */
  storage: number;
  /** Milliseconds that half of the requests for a thread took at most. */
  latency: number;
  /** The same of requests to the bare proxy: it tells how busy the machine was. */
  bareLatency: number;
}

/** A bare Node proxy before the same platform, which has no part in what happens. It prints its port first. */
export const startBareProxy = (platformUrl: string): Promise<Measured> =>
  startProcess('test/bench/bare-proxy.ts', { env: { UPSTREAM_URL: platformUrl } });

/** Measures for so long while people are at work. */
export async function measure(parts: {
  site: CampaignSite;
  journal: Journal;
  bare: Measured;
  seconds: number;
}): Promise<Measures> {
  const { site, journal, bare, seconds } = parts;
  const since = performance.now();
  const bareTimes: number[] = [];
  while (performance.now() < since + seconds * 1_000) {
    const askedAt = performance.now();
    await ask(`http://127.0.0.1:${bare.firstLine}`);
    bareTimes.push(performance.now() - askedAt);
    await sleep(PAUSE_MILLISECONDS);
  }
  const process = `/proc/${site.members[0]?.program.pid}`;
  const [, kilobytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`${process}/status`, 'utf8')) ?? [];
  return {
    memory: Number(kilobytes) * 1_024,
    descriptors: readdirSync(`${process}/fd`).length,
    storage: storedBytes(site),
    latency: median(journal.times('thread', since)),
    bareLatency: median(bareTimes),
  };
}

export function storedBytes({ redis, dataDirectory }: CampaignSite): number {
  if (redis) return Number(/^used_memory_dataset:(\d+)/m.exec(redis.ask('INFO', 'memory'))?.[1]);
  return statSync(join(dataDirectory, DATABASE_FILE)).size;
}
