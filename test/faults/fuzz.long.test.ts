/** R89: a process responds and survives hostile requests of callers and hostile responses of its provider. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { csrfTokenOf } from '../gatehouse/sign-in/attempt.ts';
import { REPLACEABLE_ENDPOINTS, type ReplaceableEndpoint } from '../support/hostile-modes.ts';
import { ACCEPT_JSON, sendRequest } from '../support/send-request.ts';
import { createChance } from './chance.ts';
import { type Credentials, type HostileRequest, rawBytes, wholeRequest, withCurrentSession } from './fuzz-requests.ts';
import { type HostileResponse, hostileResponse } from './fuzz-responses.ts';
import { type FuzzSite, HOME_APP, provoke, startFuzzSite } from './fuzz-site.ts';
import { createFaultReport, LONG } from './report.ts';

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? (LONG ? 100_000 : 2_000));
const RAW_SHARE = 0.25;
const RESPONSES = Math.ceil(REQUESTS / 50);
/** Number of concurrent requests. */
const BATCH_SIZE = 20;

const { seed } = createChance(process.env.FUZZ_SEED);
const report = createFaultReport();
let site: FuzzSite;

describe('R89 fuzzing', () => {
  beforeAll(async () => {
    process.stdout.write(`Fuzzing: FUZZ_SEED=${seed}\n`);
    site = await startFuzzSite([]);
  });
  afterAll(async () => {
    await site?.close();
    report.print('Fuzzing');
  });

  test('R89 hostile requests on every route get a response in time, never 500, and the process survives', async () => {
    const batches = Math.ceil((REQUESTS * (1 - RAW_SHARE)) / BATCH_SIZE);
    await report.run(`R89 hostile requests on every route, seed ${seed}`, batches * BATCH_SIZE, () =>
      tryRequests(wholeRequest, batches, [200, 303, 400, 401, 403, 404, 405]),
    );
  });

  test('R89 arbitrary bytes get a response or an end in time, never 500, and the process survives', async () => {
    const batches = Math.ceil((REQUESTS * RAW_SHARE) / BATCH_SIZE);
    await report.run(`R89 bytes over raw sockets, seed ${seed}`, batches * BATCH_SIZE, () =>
      tryRequests(rawBytes, batches, [400]),
    );
  });

  test('R89 afterwards a sign-in and a thread work as before', async () => {
    const { page, agent } = await site.signIn(HOME_APP);
    const thread = await sendRequest(`${site.url}/threads/current?app=${HOME_APP}`, {
      headers: { ...ACCEPT_JSON, cookie: agent.cookies.header(site.url) },
    });
    expect([page.status, thread.status]).toEqual([200, 200]);
  });

  test('R89, F11 with hostile responses of the provider every request gets a response, never 500', async () => {
    await report.run(`F11 hostile responses of the provider, seed ${seed}`, RESPONSES, tryResponses);
  });
});

async function tryRequests(
  generate: (credentials: Credentials) => fc.Arbitrary<HostileRequest>,
  batches: number,
  expected: readonly number[],
): Promise<string> {
  const original = await site.credentials();
  let current = original;
  const statuses = new Map<number, number>();
  const batch = fc.array(generate(original), { minLength: BATCH_SIZE, maxLength: BATCH_SIZE });
  const work = fc.asyncProperty(batch, async (requests) => {
    const outcomes = await Promise.all(
      requests.map((request) => provoke(site.url, withCurrentSession(request, original, current))),
    );
    const faults = outcomes.map(
      ({ fault }, index) => fault && `${fault}: ${requests[index]?.bytes.toString('latin1')}`,
    );
    expect(faults.filter((fault) => fault !== undefined)).toEqual([]);
    for (const { status } of outcomes) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    // One of the requests may have signed out.
    current = await site.credentials();
  });
  await fc.assert(work, { seed, numRuns: batches, endOnFailure: true });
  expect(site.alarms()).toEqual([]);
  // Not all requests are refused early.
  for (const status of expected) expect([...statuses.keys()]).toContain(status);
  return [...statuses]
    .sort(([a], [b]) => a - b)
    .map(([status, count]) => `${count} x ${status || 'closed'}`)
    .join(', ');
}

/** Uses another process with an app for each response, because only a new app reads the metadata again. */
async function tryResponses(): Promise<string> {
  const apps = Array.from({ length: RESPONSES }, (_, number) => `app-${number}`);
  const fuzzSite = await startFuzzSite(apps);
  const calledEndpoints = new Set<string>();
  let harmless = 0;
  try {
    const work = fc.asyncProperty(hostileResponse, async (response) => {
      // The endpoints take turns, so that each is tested.
      const endpoint = REPLACEABLE_ENDPOINTS[apps.length % REPLACEABLE_ENDPOINTS.length] ?? 'token';
      const statuses = await statusesWith(fuzzSite, apps.pop() ?? HOME_APP, endpoint, response);
      expect(statuses, `${endpoint}: ${response.description}`).not.toContain(500);
      if (statuses.every((status) => status === 200)) harmless += 1;
      if (fuzzSite.provider.hitsOf(endpoint).length > 0) calledEndpoints.add(endpoint);
      fuzzSite.provider.hits.length = 0;
    });
    await fc.assert(work, { seed, numRuns: RESPONSES, endOnFailure: true });
    expect([fuzzSite.provider.trapped, fuzzSite.alarms()]).toEqual([[], []]);
    expect([...calledEndpoints].sort()).toEqual([...REPLACEABLE_ENDPOINTS].sort());
    return `${harmless} of them harmless, the others refused with a response`;
  } finally {
    await fuzzSite.close();
  }
}

/** Returns the statuses of a sign-in, two threads and a disconnect while this endpoint sends this response. */
async function statusesWith(
  fuzzSite: FuzzSite,
  app: string,
  endpoint: ReplaceableEndpoint,
  { respond }: HostileResponse,
): Promise<number[]> {
  const { url, provider } = fuzzSite;
  const metadata = (original: object) => ({ ...original, jwks_uri: `${provider.issuer}/jwks?for=${app}` });
  provider.setModes({ responses: { [endpoint]: respond }, metadata });
  const { agent, page } = await fuzzSite.signIn(app);
  const headers = { ...ACCEPT_JSON, cookie: agent.cookies.header(url) };
  const requestThread = () => sendRequest(`${url}/threads/current?app=${app}`, { headers });
  const threadWithValidToken = await requestThread();
  await fuzzSite.expire(app);
  const threadAfterRefresh = await requestThread();
  const disconnected = await sendRequest(`${url}/connections/${app}/disconnect`, {
    method: 'POST',
    headers: { ...headers, 'x-csrf-token': await csrfTokenOf(fuzzSite, agent) },
  });
  return [page, threadWithValidToken, threadAfterRefresh, disconnected].map(({ status }) => status);
}
