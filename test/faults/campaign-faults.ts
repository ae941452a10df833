/** The faults that a campaign draws from: how to cause and end each on one machine. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { DATABASE_FILE } from '../../src/shared/storage/sqlite/store.ts';
import { BROKEN_RESPONSES, type BrokenResponseName } from '../support/broken-responses.ts';
import { limitFileSize, limitOpenFiles, missingPrlimit } from '../support/fleet.ts';
import { sendJson } from '../support/scripted-bin-lookup-service.ts';
import { until } from '../support/until.ts';
import type { Excused } from './campaign-journal.ts';
import type { Endpoint } from './campaign-provider.ts';
import { type CampaignSite, recordOf } from './campaign-site.ts';
import type { Chance } from './chance.ts';

export interface CampaignFault {
  /** With its number in the table of faults. */
  name: string;
  /** The connections that it may cut without a response. */
  cuts?: Excused;
  /** Causes the fault for this time. Resolves after it has ended. */
  strike(milliseconds: number): Promise<void>;
}

/** Responses of a failing provider, without refusals of valid tokens, which would rightly end the connection. */
const PROVIDER_RESPONSES = [
  'status-500',
  'status-503',
  'status-429',
  'status-404',
  'invalid-client',
  'html',
  'array',
  'null',
  'empty',
  'truncated',
  'wrong-type',
  'reset',
  'reset-after-headers',
  'hang',
  'drip',
  'huge',
  'many-headers',
  'redirect',
  'redirect-307',
  'gzip-cut-off',
  'unknown-encoding',
] as BrokenResponseName[];
/** Excludes most 4xx responses and invalid bodies with 200, because Gatehouse relays both unchanged. */
const PLATFORM_RESPONSES = [
  'status-500',
  'status-503',
  'status-429',
  'status-401',
  'reset',
  'reset-after-headers',
  'hang',
  'drip',
  'huge',
  'many-headers',
  'redirect',
] as BrokenResponseName[];
const BIN_RESPONSES = [
  'status-500',
  'status-503',
  'status-429',
  'html',
  'array',
  'null',
  'empty',
  'truncated',
  'reset',
  'hang',
  'reset-after-headers',
  'drip',
  'huge',
  'redirect',
] as BrokenResponseName[];
const PROVIDER_ENDPOINTS: Endpoint[] = ['discovery', 'jwks', 'token', 'refresh', 'refresh', 'refresh', 'revocation'];
/** Descriptors in addition to those that are open. */
const SPARE_DESCRIPTORS = 3;
/** Shorter than the shortest deadline of a Redis command. */
const BURST_MILLISECONDS = 400;

/** Faults of the machine and the storage, of which one occurs at a time. */
export function machineFaults(site: CampaignSite, chance: Chance): CampaignFault[] {
  const { members, redis, dataDirectory } = site;
  const [, ...expendable] = members;
  const each = (work: (pid: number) => Promise<void>) =>
    Promise.all(members.map((member) => work(member.program.pid))).then(() => undefined);
  const kill = (by: 'SIGKILL' | 'SIGTERM') => () => site.restart(chance.pick(expendable), by);
  const faults: CampaignFault[] = [
    { name: 'F1: a process killed with SIGKILL, and started again', cuts: 'all', strike: kill('SIGKILL') },
    { name: 'F18: a process ended with SIGTERM, and started again', strike: kill('SIGTERM') },
    {
      name: 'F3: a process stopped with SIGSTOP, and resumed',
      async strike(milliseconds) {
        const member = chance.pick(members);
        member.signal('SIGSTOP');
        await sleep(milliseconds);
        member.signal('SIGCONT');
      },
    },
  ];
  if (!missingPrlimit) {
    faults.push({
      name: 'F21: a process with almost no free file descriptors',
      cuts: 'all',
      async strike(milliseconds) {
        const { pid } = chance.pick(members).program;
        await limitOpenFiles(pid, readdirSync(`/proc/${pid}/fd`).length + SPARE_DESCRIPTORS);
        await sleep(milliseconds);
        await limitOpenFiles(pid, 'maximum');
      },
    });
  }
  if (redis) return [...faults, ...redisFaults(redis)];
  if (!missingPrlimit) {
    faults.push({
      name: 'F16: no disk space for the database',
      async strike(milliseconds) {
        await each((pid) => limitFileSize(pid, 0));
        await sleep(milliseconds);
        await each((pid) => limitFileSize(pid, 'unlimited'));
      },
    });
  }
  faults.push({
    name: 'F17: the database locked by another program',
    async strike(milliseconds) {
      const database = new DatabaseSync(join(dataDirectory, DATABASE_FILE));
      try {
        // Do not block: the provider runs in this process.
        await until(() => isLocked(database));
        await sleep(milliseconds);
      } finally {
        database.close();
      }
    },
  });
  return faults;
}

function isLocked(database: DatabaseSync): boolean {
  try {
    database.exec('BEGIN IMMEDIATE');
    return true;
  } catch {
    return false;
  }
}

function redisFaults(redis: NonNullable<CampaignSite['redis']>): CampaignFault[] {
  return [
    {
      name: 'F4: Redis killed, and started again on its append-only file',
      async strike(milliseconds) {
        await redis.kill();
        await sleep(milliseconds);
        await redis.start();
      },
    },
    {
      name: 'F6: Redis frozen',
      async strike(milliseconds) {
        redis.signal('SIGSTOP');
        await sleep(milliseconds);
        redis.signal('SIGCONT');
      },
    },
    {
      name: 'F25: Redis slow, in bursts',
      async strike(milliseconds) {
        const endsAt = performance.now() + milliseconds;
        while (performance.now() < endsAt) {
          redis.sendCommand('CLIENT', 'PAUSE', String(BURST_MILLISECONDS), 'ALL');
          await sleep(2 * BURST_MILLISECONDS);
        }
      },
    },
    {
      name: 'F7: Redis made a replica, and a master again',
      async strike(milliseconds) {
        redis.sendCommand('REPLICAOF', '127.0.0.1', '1');
        await sleep(milliseconds);
        redis.sendCommand('REPLICAOF', 'NO', 'ONE');
      },
    },
    {
      name: 'F8: all connections to Redis cut',
      async strike(milliseconds) {
        redis.sendCommand('CLIENT', 'KILL', 'TYPE', 'normal');
        await sleep(milliseconds / 4);
        redis.sendCommand('CLIENT', 'KILL', 'TYPE', 'pubsub');
      },
    },
    {
      name: 'F16: no free memory in Redis',
      async strike(milliseconds) {
        redis.sendCommand('CONFIG', 'SET', 'maxmemory', '1');
        await sleep(milliseconds);
        redis.sendCommand('CONFIG', 'SET', 'maxmemory', '0');
      },
    },
  ];
}

/** Faults of the servers that Gatehouse calls. One occurs at a time, in addition to those of the machine. */
export function outsideFaults(site: CampaignSite, chance: Chance): CampaignFault[] {
  const { provider, binService } = site;
  const breakFor = async (endpoint: Endpoint, responses: readonly BrokenResponseName[], milliseconds: number) => {
    const when = chance.pick(['before', 'after'] as const);
    const repair = provider.break({ endpoint, when, response: BROKEN_RESPONSES[chance.pick(responses)] });
    await sleep(milliseconds);
    repair();
  };
  return [
    {
      name: 'F10, F11, F13: an endpoint of the provider broken',
      strike: (milliseconds) => breakFor(chance.pick(PROVIDER_ENDPOINTS), PROVIDER_RESPONSES, milliseconds),
    },
    {
      name: 'F2, F10: the provider slow with its tokens',
      async strike(milliseconds) {
        provider.delayMilliseconds = chance.between(100, Math.min(6_000, milliseconds));
        await sleep(milliseconds);
        provider.delayMilliseconds = undefined;
      },
    },
    {
      name: 'F27: the provider replaces all its signing keys',
      async strike(milliseconds) {
        await provider.replaceKey();
        await sleep(milliseconds);
      },
    },
    {
      name: 'F15: the platform broken',
      cuts: 'threads',
      strike: (milliseconds) => breakFor('platform', PLATFORM_RESPONSES, milliseconds),
    },
    {
      name: 'F20: the BIN lookup service broken',
      async strike(milliseconds) {
        const respond = BROKEN_RESPONSES[chance.pick(BIN_RESPONSES)];
        const trapUrl = `${provider.url}/trap`;
        binService.respondWith((res, { url }) =>
          respond(res, { trapUrl, body: JSON.stringify(recordOf(url.slice(1))) }),
        );
        await sleep(milliseconds);
        binService.respondWith((res, { url }) => sendJson(res, recordOf(url.slice(1))));
      },
    },
  ];
}
