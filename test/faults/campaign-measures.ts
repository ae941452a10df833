/** The measures of a campaign before and after its faults, which must stay about the same. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DATABASE_FILE } from '../../src/shared/storage/sqlite/store.ts';
import { median } from '../bench/load.ts';
import { relayThread } from '../gatehouse/relay/service.ts';
import { sendRequest } from '../support/send-request.ts';
import type { Journal } from './campaign-journal.ts';
import type { CampaignSite } from './campaign-site.ts';

/** Number of pairs of a call to Gatehouse and a call to the bare proxy. */
const PAIRS = 500;

/** Measures of the storage, and of the process that runs for the whole campaign. */
export interface Measures {
  /** Resident bytes. */
  memory: number;
  /** Open file descriptors. */
  descriptors: number;
  stored: Stored;
  /** The median of relayed calls for a thread in milliseconds; NaN if most were refused. */
  latency: number;
  /** The same for the bare proxy, which shows how busy the machine was. */
  bareLatency: number;
}

export interface Stored {
  bytes: number;
  /** Number of served requests. */
  requests: number;
}

/** Call this while no user is active. @param user the id of a user with a connection */
export async function measure(parts: { site: CampaignSite; journal: Journal; user: string }): Promise<Measures> {
  const { site, journal, user } = parts;
  const [longLived] = site.members;
  if (!longLived) throw new Error('There is no process.');
  const headers = { 'gatehouse-user': user, host: new URL(site.url).host };
  const latencies: number[] = [];
  const bareLatencies: number[] = [];
  for (let pair = 0; pair < PAIRS; pair += 1) {
    const startedAt = performance.now();
    const { status } = await relayThread(longLived, site.relayToken, headers);
    if (status === 200) latencies.push(performance.now() - startedAt);

    const bareStartedAt = performance.now();
    await sendRequest(site.bareUrl);
    bareLatencies.push(performance.now() - bareStartedAt);
  }
  const process = `/proc/${longLived.program.pid}`;
  const [, kilobytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`${process}/status`, 'utf8')) ?? [];
  return {
    memory: Number(kilobytes) * 1_024,
    descriptors: readdirSync(`${process}/fd`).length,
    stored: storedSoFar(site, journal),
    latency: latencies.length > PAIRS / 2 ? median(latencies) : Number.NaN,
    bareLatency: median(bareLatencies),
  };
}

export const storedSoFar = (site: CampaignSite, journal: Journal): Stored => ({
  bytes: storedBytes(site),
  requests: journal.total('served'),
});

function storedBytes({ redis, dataDirectory }: CampaignSite): number {
  if (redis) return Number(/^used_memory_dataset:(\d+)/m.exec(redis.sendCommand('INFO', 'memory'))?.[1]);
  return statSync(join(dataDirectory, DATABASE_FILE)).size;
}
