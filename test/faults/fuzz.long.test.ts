/** R89: a process that is spoken to as nobody should, by its callers and by the provider it calls: it answers, and it lives. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { csrfTokenOf } from '../gatehouse/sign-in/attempt.ts';
import { ask, DATA } from '../support/ask.ts';
import { ANSWERED_ENDPOINTS, type AnsweredEndpoint } from '../support/hostile-modes.ts';
import { createChance } from './chance.ts';
import { type HostileAnswer, hostileAnswer } from './fuzz-answers.ts';
import { type Credentials, type HostileRequest, rawBytes, renewed, wholeRequest } from './fuzz-requests.ts';
import { type FuzzSite, HOME_APP, provoke, startFuzzSite } from './fuzz-site.ts';
import { createFaultReport, LONG } from './report.ts';

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? (LONG ? 100_000 : 2_000));
const RAW_SHARE = 0.25;
const ANSWERS = Math.ceil(REQUESTS / 50);
/** Sent at the same time. */
const TOGETHER = 20;

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

  test('R89 hostile requests on every route: no 500, an answer in time, and the process lives', async () => {
    const batches = Math.ceil((REQUESTS * (1 - RAW_SHARE)) / TOGETHER);
    await report.run(`R89 hostile requests on every route, seed ${seed}`, batches * TOGETHER, () =>
      tryRequests(wholeRequest, batches, [200, 303, 400, 401, 403, 404, 405]),
    );
  });

  test('R89 bytes over raw sockets: no 500, an answer or an end in time, and the process lives', async () => {
    const batches = Math.ceil((REQUESTS * RAW_SHARE) / TOGETHER);
    await report.run(`R89 bytes over raw sockets, seed ${seed}`, batches * TOGETHER, () =>
      tryRequests(rawBytes, batches, [400]),
    );
  });

  test('R89 after all that a sign-in and a thread work as before', async () => {
    const { page, agent } = await site.signIn(HOME_APP);
    const thread = await ask(`${site.url}/threads/current?app=${HOME_APP}`, {
      headers: { ...DATA, cookie: agent.cookies.header(site.url) },
    });
    expect([page.status, thread.status]).toEqual([200, 200]);
  });

  test('R89, F11 hostile answers of the provider: whatever is asked ends with an answer, never 500', async () => {
    await report.run(`F11 hostile answers of the provider, seed ${seed}`, ANSWERS, tryAnswers);
  });
});

async function tryRequests(
  make: (of: Credentials) => fc.Arbitrary<HostileRequest>,
  batches: number,
  expected: readonly number[],
): Promise<string> {
  const made = await site.credentials();
  let now = made;
  const statuses = new Map<number, number>();
  const batch = fc.array(make(made), { minLength: TOGETHER, maxLength: TOGETHER });
  const work = fc.asyncProperty(batch, async (requests) => {
    const outcomes = await Promise.all(requests.map((request) => provoke(site.url, renewed(request, made, now))));
    const wrong = outcomes.map(({ fault }, at) => fault && `${fault}: ${requests[at]?.bytes.toString('latin1')}`);
    expect(wrong.filter((fault) => fault !== undefined)).toEqual([]);
    for (const { status } of outcomes) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    // Somebody among them may have signed it out.
    now = await site.credentials();
  });
  await fc.assert(work, { seed, numRuns: batches, endOnFailure: true });
  expect(site.alarms()).toEqual([]);
  // Not all of it is refused at the door.
  for (const status of expected) expect([...statuses.keys()]).toContain(status);
  return [...statuses]
    .sort(([one], [other]) => one - other)
    .map(([status, count]) => `${count} x ${status || 'closed'}`)
    .join(', ');
}

/** By another process, with an app for each answer: what a provider says of itself is kept, so only a new app asks for it. */
async function tryAnswers(): Promise<string> {
  const apps = Array.from({ length: ANSWERS }, (_, n) => `app-${n}`);
  const told = await startFuzzSite(apps);
  const met = new Set<string>();
  let harmless = 0;
  try {
    const work = fc.asyncProperty(hostileAnswer, async (answer) => {
      // Each endpoint in its turn, so that all of them are met.
      const endpoint = ANSWERED_ENDPOINTS[apps.length % ANSWERED_ENDPOINTS.length] ?? 'token';
      const statuses = await meet(told, apps.pop() ?? HOME_APP, endpoint, answer);
      expect(statuses, `${endpoint}: ${answer.described}`).not.toContain(500);
      if (statuses.every((status) => status === 200)) harmless += 1;
      if (told.provider.hitsOf(endpoint).length > 0) met.add(endpoint);
      told.provider.hits.length = 0;
    });
    await fc.assert(work, { seed, numRuns: ANSWERS, endOnFailure: true });
    expect([told.provider.trapped, told.alarms()]).toEqual([[], []]);
    expect([...met].sort()).toEqual([...ANSWERED_ENDPOINTS].sort());
    return `${harmless} of them harmless, the others refused with an answer`;
  } finally {
    await told.close();
  }
}

/** A sign-in, threads and a disconnect while the provider answers so. */
async function meet(
  told: FuzzSite,
  app: string,
  endpoint: AnsweredEndpoint,
  { answer }: HostileAnswer,
): Promise<number[]> {
  const { url, provider } = told;
  const metadata = (proper: object) => ({ ...proper, jwks_uri: `${provider.issuer}/jwks?for=${app}` });
  provider.set({ answers: { [endpoint]: answer }, metadata });
  const { agent, page } = await told.signIn(app);
  const headers = { ...DATA, cookie: agent.cookies.header(url) };
  const thread = () => ask(`${url}/threads/current?app=${app}`, { headers });
  const fresh = await thread();
  await told.expire(app);
  const refreshed = await thread();
  const ended = await ask(`${url}/connections/${app}/disconnect`, {
    method: 'POST',
    headers: { ...headers, 'x-csrf-token': await csrfTokenOf(told, agent) },
  });
  return [page, fresh, refreshed, ended].map(({ status }) => status);
}
