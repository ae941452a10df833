/** What a campaign measures before its faults and after them: it has to stay flat. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DATABASE_FILE } from '../../src/shared/storage/sqlite/store.ts';
import { median } from '../bench/load.ts';
import { relayThread } from '../gatehouse/relay/service.ts';
import { ask } from '../support/ask.ts';
import type { Journal } from './campaign-journal.ts';
import type { CampaignSite } from './campaign-site.ts';

/** Of a call to Gatehouse and one to the bare proxy, in turn. */
const PAIRS = 500;

/** Of the process that lives from the start to the end of the campaign, and of the storage. */
export interface Measures {
  /** Resident bytes. */
  memory: number;
  /** Open file descriptors. */
  descriptors: number;
  stored: Stored;
  /** Milliseconds that half of the relayed calls for a thread took at most; NaN where most were refused. */
  latency: number;
  /** The same of requests to the bare proxy: it tells how busy the machine was. */
  bareLatency: number;
}

export interface Stored {
  bytes: number;
  /** Served so far. */
  requests: number;
}

/** To be called while nobody is at work. @param user has a connection */
export async function measure(parts: { site: CampaignSite; journal: Journal; user: string }): Promise<Measures> {
  const { site, journal, user } = parts;
  const [longLived] = site.members;
  if (!longLived) throw new Error('There is no process.');
  const headers = { 'gatehouse-user': user, host: new URL(site.url).host };
  const [threads, bareThreads]: [number[], number[]] = [[], []];
  for (let pair = 0; pair < PAIRS; pair += 1) {
    const begunAt = performance.now();
    const { status } = await relayThread(longLived, site.relayToken, headers);
    const calledAt = performance.now();
    if (status === 200) threads.push(calledAt - begunAt);
    await ask(site.bareUrl);
    bareThreads.push(performance.now() - calledAt);
  }
  const process = `/proc/${longLived.program.pid}`;
  const [, kilobytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`${process}/status`, 'utf8')) ?? [];
  return {
    memory: Number(kilobytes) * 1_024,
    descriptors: readdirSync(`${process}/fd`).length,
    stored: storedSoFar(site, journal),
    latency: threads.length > PAIRS / 2 ? median(threads) : Number.NaN,
    bareLatency: median(bareThreads),
  };
}

export const storedSoFar = (site: CampaignSite, journal: Journal): Stored => ({
  bytes: storedBytes(site),
  requests: journal.total('served'),
});

function storedBytes({ redis, dataDirectory }: CampaignSite): number {
  if (redis) return Number(/^used_memory_dataset:(\d+)/m.exec(redis.ask('INFO', 'memory'))?.[1]);
  return statSync(join(dataDirectory, DATABASE_FILE)).size;
}
