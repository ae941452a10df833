/** R93 over HTTP: the budgets of users and relay tokens for paid calls to the BIN lookup service. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import {
  type ScriptedBinService,
  sendJson,
  startScriptedBinService,
} from '../../support/scripted-bin-lookup-service.ts';
import { ACCEPT_HTML, ACCEPT_JSON, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess } from '../grants/storage-access.ts';
import { type Administrator, bearer, createAdministrator } from '../relay/service.ts';

let service: ScriptedBinService;
beforeAll(async () => {
  service = await startScriptedBinService();
  service.respondWith((response) => sendJson(response, { scheme: 'visa', brand: 'remote' }));
});
afterAll(() => service.close());

const siteWith = (quota: Record<string, string>) => startSite({ env: { BIN_SERVICE_URL: service.url, ...quota } });

/** Signs in a user who looks up BINs. */
async function signInUser(site: TestSite, login: string) {
  const { agent } = await signIn(site, login);
  const cookie = agent.cookies.header(site.url);
  const csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
  return {
    lookUp: (bin: string) => sendRequest(`${site.url}/bin/${bin}`, { headers: { ...ACCEPT_JSON, cookie } }),
    lookUpMany: (bins: readonly string[]) =>
      sendRequest(`${site.url}/bin`, {
        method: 'POST',
        headers: { ...ACCEPT_JSON, ...JSON_BODY, cookie, 'x-csrf-token': csrf },
        body: JSON.stringify({ bins }),
      }),
    openPage: (bin: string) => sendRequest(`${site.url}/bin?bin=${bin}`, { headers: { ...ACCEPT_HTML, cookie } }),
  };
}

const binsFrom = (first: number, count: number) => Array.from({ length: count }, (_, index) => String(first + index));

describe('with the defaults', () => {
  let site: TestSite;
  beforeAll(async () => {
    site = await siteWith({});
  });
  afterAll(() => site.close());

  test('R93 after one user looks up 20,000 BINs, another user still gets a remote response', async () => {
    const heavyUser = await signInUser(site, 'user@example.test');
    for (let batch = 0; batch < 20; batch++) {
      expect((await heavyUser.lookUpMany(binsFrom(42_000_000 + batch * 1_000, 1_000))).status).toBe(200);
    }
    expect(service.hits.length).toBe(100);
    const otherUser = await signInUser(site, 'second@example.test');
    const response = await otherUser.lookUp('43000000');
    expect([response.status, response.headers['gatehouse-source']]).toEqual([200, 'service']);
  });
});

describe('with small budgets', () => {
  let site: TestSite;
  let storage: StorageAccess;
  let admin: Administrator;
  beforeAll(async () => {
    site = await siteWith({
      ...{ BIN_SERVICE_MONTHLY_QUOTA: '20', BIN_SERVICE_MONTHLY_USER_RESERVE: '8', BIN_SERVICE_USER_DAILY_QUOTA: '3' },
    });
    storage = await openStorageOf(site);
    admin = await createAdministrator(site, storage);
  });
  afterAll(async () => {
    await storage.close();
    await site.close();
  });

  const lookUpByRelay = (token: string, bins: readonly string[]) =>
    sendRequest(`${site.url}/relay/bin`, {
      method: 'POST',
      headers: { ...bearer(token), ...JSON_BODY },
      body: JSON.stringify({ bins }),
    });
  const resultsOf = ({ body }: { body: string }): { source?: string; problem?: Record<string, unknown> }[] =>
    JSON.parse(body).results;
  const countRemote = (response: { body: string }) =>
    resultsOf(response).filter(({ source }) => source === 'service').length;

  test('R93 a user has one daily budget for all sessions, pages and API calls', async () => {
    const firstSession = await signInUser(site, 'user@example.test');
    const secondSession = await signInUser(site, 'user@example.test');
    const [firstResponse, secondResponse] = await Promise.all([
      firstSession.lookUpMany(binsFrom(44_000_000, 50)),
      secondSession.lookUpMany(binsFrom(45_000_000, 50)),
    ]);
    expect(countRemote(firstResponse) + countRemote(secondResponse)).toBe(3);
    const problem = { code: 'bin_quota_exhausted', detail: expect.stringContaining('for today (UTC)') };
    const firstProblem = resultsOf(firstResponse).find((result) => result.problem)?.problem ?? {};
    expect(firstProblem).toMatchObject(problem);
    expect(firstProblem.retryAfterSeconds).toBeLessThanOrEqual(24 * 3600);

    const single = await firstSession.lookUp('46000000');
    expect([single.status, JSON.parse(single.body)]).toEqual([429, expect.objectContaining(problem)]);
    expect(Number(single.headers['retry-after'])).toBeLessThanOrEqual(24 * 3600);
    const page = await secondSession.openPage('46000000');
    expect([page.status, page.body.includes('for today (UTC)')]).toEqual([429, true]);
    // BINs of the built-in data set are still found.
    expect((await firstSession.lookUp('371449')).status).toBe(200);
  });

  test('R93 a service uses only calls that are not reserved, and no more than the budget of its token', async () => {
    const { token: tokenWithBudget } = await admin.createRelayToken({ binCallsPerMonth: 2 });
    const limited = await lookUpByRelay(tokenWithBudget, binsFrom(47_000_000, 10));
    expect(countRemote(limited)).toBe(2);
    expect(resultsOf(limited).at(-1)?.problem).toMatchObject({ detail: expect.stringContaining('This relay token') });

    const { token: tokenWithoutBudget } = await admin.createRelayToken();
    const response = await lookUpByRelay(tokenWithoutBudget, binsFrom(48_000_000, 50));
    // Of 20 calls, the user has used 3 and the other token 2, and 8 are reserved for users.
    expect(countRemote(response)).toBe(7);
    expect(resultsOf(response).at(-1)?.problem).toMatchObject({
      detail: expect.stringContaining('reserved for users'),
    });
    const single = await sendRequest(`${site.url}/relay/bin/49000000`, { headers: bearer(tokenWithoutBudget) });
    expect([single.status, JSON.parse(single.body).code]).toEqual([429, 'bin_quota_exhausted']);

    const otherUser = await signInUser(site, 'second@example.test');
    expect((await otherUser.lookUp('49000000')).headers['gatehouse-source']).toBe('service');
    // A response that a user's call has cached costs the service nothing.
    const cached = await sendRequest(`${site.url}/relay/bin/49000000`, { headers: bearer(tokenWithoutBudget) });
    expect(cached.headers['gatehouse-source']).toBe('cache');
  });

  test('R93 changes and shows the budget of a relay token', async () => {
    const { id, version } = await admin.createRelayToken({ binCallsPerMonth: 2 });
    const { json } = await admin.call('GET', `/relay-tokens/${id}`);
    expect(json.binCallsPerMonth).toBe(2);
    const { name, scopes, apps, routes, users, networks, expiresAt, assertUser, fullScope, acceptIdTokens } = json;
    const policy = { name, scopes, apps, routes, users, networks, expiresAt, assertUser, fullScope, acceptIdTokens };
    const changedToken = { ...policy, version, binCallsPerMonth: null };
    expect((await admin.call('PUT', `/relay-tokens/${id}`, changedToken)).json.binCallsPerMonth).toBeNull();
    expect((await admin.call('POST', '/relay-tokens', { ...policy, binCallsPerMonth: -1 })).json.errors).toMatchObject([
      { pointer: '#/binCallsPerMonth' },
    ]);
  });

  test('R93 an administrator enters, changes and clears the budget on the page of the token', async () => {
    const { agent } = await signIn(site, 'admin@example.test');
    const { id } = await admin.createRelayToken({ binCallsPerMonth: 2_000 });
    const open = () => agent.get(`${site.url}/admin/relay-tokens/${id}`);
    const edit = () => agent.get(`${site.url}/admin/relay-tokens/${id}/edit`);
    const saveBudget = async (binCallsPerMonth: string) => agent.submit(await edit(), { binCallsPerMonth });
    expect((await open()).body).toContain('2,000 a month');
    expect((await saveBudget('few')).body).toContain('Enter a whole number of calls from 0 to 999999999, or nothing.');
    expect((await saveBudget('30')).body).toContain('30 a month');
    expect((await saveBudget('')).body).toContain('All calls that are not reserved for users');
  });
});
