/** Benchmark of the administration: every list, filter and search on a storage with very many users. */

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { sign } from 'cookie-signature';
import { Cookie, type SessionData } from 'express-session';
import { sessionCookieName } from '../../src/shared/sessions/browser-sessions.ts';
import { createSessionLists } from '../../src/shared/sessions/session-lists.ts';
import { createSessionRecords } from '../../src/shared/sessions/session-record.ts';
import { createSealedJson } from '../../src/shared/storage/sealed-json.ts';
import type { SharedStorage } from '../support/fleet.ts';
import { listRequests } from './admin-requests.ts';
import { type Effort, print } from './effort.ts';
import { type Finding, formatFindings } from './findings.ts';
import { type Keep, prepareLargeSite, STORAGES } from './large-site.ts';
import { ISSUER, LIFETIMES, userOf } from './large-storage.ts';
import { median } from './load.ts';
import { startGatehouseProcess } from './process.ts';
import { type Storage, withAll } from './site.ts';

const MAX_MILLISECONDS = 100;
/** By then the background work of the start has ended, such as reading every session. */
const SETTLED_MILLISECONDS = 60_000;

/** The milliseconds of each run of one request. */
interface TimedRequest {
  path: string;
  times: number[];
}

export async function benchAdmin({ users, runs }: Effort): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const storage of STORAGES) {
    const timedRequests = await withAll((keep) => timeStorage(keep, { storage, users, runs }));
    findings.push(...slowest(timedRequests).map((request) => findingOf(request, `${storage}: `)));
  }
  print(
    formatFindings(
      `The slowest request of each page and call of the administration, with ${users.toLocaleString('en-GB')} users, medians of ${runs} runs`,
      findings,
    ),
  );
  return findings;
}

async function timeStorage(
  keep: Keep,
  { storage, users, runs }: { storage: Storage; users: number; runs: number },
): Promise<TimedRequest[]> {
  let cookie = '';
  const write = async (sharedStorage: SharedStorage, env: Record<string, string>) => {
    cookie = await createAdministratorSession(sharedStorage, env);
  };
  const { url, env } = await prepareLargeSite({ keep, storage, users, write });
  keep(await startGatehouseProcess(env));
  await sleep(SETTLED_MILLISECONDS);
  return timeRequests(url, cookie, { paths: listRequests(users), runs });
}

/** Returns the slowest request of each list, page and search. */
function slowest(timedRequests: readonly TimedRequest[]): TimedRequest[] {
  const groups = Map.groupBy(timedRequests, ({ path }) => path.replace(/\?.*/, ''));
  return [...groups.values()]
    .map((requests) => requests.toSorted((a, b) => median(b.times) - median(a.times))[0])
    .filter((request) => request !== undefined);
}

function findingOf({ path, times }: TimedRequest, prefix: string): Finding {
  // Positions and times differ from run to run.
  const what = prefix + path.replaceAll(/(?<=[?&](?:after|from|to)=)[^&]+/g, '…');
  return { what, measured: median(times), unit: 'ms', target: { most: MAX_MILLISECONDS } };
}

/** Writes the session of an administrator. Returns the `Cookie` header. */
export async function createAdministratorSession(
  { store, sealer }: SharedStorage,
  { PUBLIC_URL = '', SESSION_SECRETS = '' }: Record<string, string>,
): Promise<string> {
  const clock = Date.now;
  const lists = createSessionLists({ store, maxSeconds: LIFETIMES.maxSeconds, clock });
  const sealedJson = createSealedJson(sealer);
  const records = createSessionRecords({ store, sealedJson, lists, lifetimes: LIFETIMES, clock });
  const user = { ...userOf(0), issuer: ISSUER, admin: true };
  const sessionId = randomBytes(24).toString('base64url');
  const data = { cookie: new Cookie(), user, csrfToken: randomBytes(32).toString('base64url'), app: 'platform' };
  await records.write(sessionId, data as unknown as SessionData);
  return `${sessionCookieName(PUBLIC_URL)}=${encodeURIComponent(`s:${sign(sessionId, SESSION_SECRETS)}`)}`;
}

/** Sends each request several times, one after the other. @throws Error for a status other than 200 */
export async function timeRequests(
  url: string,
  cookie: string,
  { paths, runs }: { paths: readonly string[]; runs: number },
): Promise<TimedRequest[]> {
  const timedRequests: TimedRequest[] = [];
  for (const path of paths) {
    const headers = { cookie, accept: path.includes('/api/') ? 'application/json' : 'text/html' };
    const times: number[] = [];
    for (let run = 0; run < runs; run += 1) {
      const startedAt = performance.now();
      const response = await fetch(url + path, { headers });
      await response.arrayBuffer();
      times.push(performance.now() - startedAt);
      if (response.status !== 200) throw new Error(`${path} returned ${response.status}.`);
    }
    timedRequests.push({ path, times });
  }
  return timedRequests;
}
