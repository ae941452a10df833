/** R93 over HTTP: the budgets of users and relay tokens for paid calls to the BIN lookup service. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import {
  type ScriptedBinService,
  sendJson,
  startScriptedBinService,
} from '../../support/scripted-bin-lookup-service.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess } from '../grants/storage-access.ts';
import { type Administrator, bearer, createAdministrator } from '../relay/service.ts';

let service: ScriptedBinService;
beforeAll(async () => {
  service = await startScriptedBinService();
  service.respondWith((response) => sendJson(response, { scheme: 'visa', brand: 'remote' }));
});
afterAll(() => service.close());

const siteWith = (quota: Record<string, string>) => startSite({ env: { BIN_SERVICE_URL: service.url, ...quota } });

/** A signed-in browser that looks up BINs. */
async function userOf(site: TestSite, login: string) {
  const { agent } = await signIn(site, login);
  const cookie = agent.cookies.header(site.url);
  const csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
  return {
    one: (bin: string) => sendRequest(`${site.url}/bin/${bin}`, { headers: { ...ACCEPT_JSON, cookie } }),
    many: (bins: readonly string[]) =>
      sendRequest(`${site.url}/bin`, {
        method: 'POST',
        headers: { ...ACCEPT_JSON, ...JSON_BODY, cookie, 'x-csrf-token': csrf },
        body: JSON.stringify({ bins }),
      }),
    form: (bin: string) =>
      sendRequest(`${site.url}/bin`, {
        method: 'POST',
        headers: { ...ACCEPT_HTML, ...FORM_BODY, cookie },
        body: `_csrf=${csrf}&bin=${bin}`,
      }),
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
    const greedy = await userOf(site, 'user@example.test');
    for (let batch = 0; batch < 20; batch++) {
      expect((await greedy.many(binsFrom(42_000_000 + batch * 1_000, 1_000))).status).toBe(200);
    }
    expect(service.hits.length).toBe(100);
    const other = await userOf(site, 'second@example.test');
    const response = await other.one('43000000');
    expect([response.status, response.headers['gatehouse-source']]).toEqual([200, 'service']);
  });
});

describe('with small budgets', () => {
  let site: TestSite;
  let storage: StorageAccess;
  let admin: Administrator;
  beforeAll(async () => {
    site = await siteWith({
      ...{ BIN_SERVICE_MONTHLY_QUOTA: '20', BIN_SERVICE_USER_RESERVE: '8', BIN_SERVICE_USER_DAILY_QUOTA: '3' },
    });
    storage = await openStorageOf(site);
    admin = await createAdministrator(site, storage);
  });
  afterAll(async () => {
    await storage.close();
    await site.close();
  });

  const relayed = (token: string, bins: readonly string[]) =>
    sendRequest(`${site.url}/relay/bin`, {
      method: 'POST',
      headers: { ...bearer(token), ...JSON_BODY },
      body: JSON.stringify({ bins }),
    });
  const resultsOf = ({ body }: { body: string }): { source?: string; problem?: Record<string, unknown> }[] =>
    JSON.parse(body).results;
  const remoteOf = (asked: { body: string }) => resultsOf(asked).filter(({ source }) => source === 'service').length;

  test('R93 a user has one daily budget for all sessions, pages and API calls', async () => {
    const first = await userOf(site, 'user@example.test');
    const second = await userOf(site, 'user@example.test');
    const [one, two] = await Promise.all([first.many(binsFrom(44_000_000, 50)), second.many(binsFrom(45_000_000, 50))]);
    expect(remoteOf(one) + remoteOf(two)).toBe(3);
    const problem = { code: 'bin_quota_exhausted', detail: expect.stringContaining('for today (UTC)') };
    const refusedOf = (asked: { body: string }) => resultsOf(asked).find((result) => result.problem)?.problem ?? {};
    expect(refusedOf(one)).toMatchObject(problem);
    expect(refusedOf(one).retryAfterSeconds).toBeLessThanOrEqual(24 * 3600);

    const single = await first.one('46000000');
    expect([single.status, JSON.parse(single.body)]).toEqual([429, expect.objectContaining(problem)]);
    expect(Number(single.headers['retry-after'])).toBeLessThanOrEqual(24 * 3600);
    const page = await second.form('46000000');
    expect([page.status, page.body.includes('for today (UTC)')]).toEqual([429, true]);
    // BINs of the built-in data set are still found.
    expect((await first.one('371449')).status).toBe(200);
  });

  test('R93 a service uses only calls that are not reserved, and no more than the budget of its token', async () => {
    const { token: small } = await admin.createRelayToken({ binCallsPerMonth: 2 });
    const limited = await relayed(small, binsFrom(47_000_000, 10));
    expect(remoteOf(limited)).toBe(2);
    expect(resultsOf(limited).at(-1)?.problem).toMatchObject({ detail: expect.stringContaining('This relay token') });

    const { token: batch } = await admin.createRelayToken();
    const asked = await relayed(batch, binsFrom(48_000_000, 50));
    // Three went to the user, two to the other token, and eight are kept.
    expect(remoteOf(asked)).toBe(7);
    expect(resultsOf(asked).at(-1)?.problem).toMatchObject({ detail: expect.stringContaining('reserved for users') });
    const single = await sendRequest(`${site.url}/relay/bin/49000000`, { headers: bearer(batch) });
    expect([single.status, JSON.parse(single.body).code]).toEqual([429, 'bin_quota_exhausted']);

    const other = await userOf(site, 'second@example.test');
    expect((await other.one('49000000')).headers['gatehouse-source']).toBe('service');
    // Paid for by the user, it costs the service nothing.
    const cached = await sendRequest(`${site.url}/relay/bin/49000000`, { headers: bearer(batch) });
    expect(cached.headers['gatehouse-source']).toBe('cache');
  });

  test('R93 changes and shows the budget of a relay token', async () => {
    const { id, version } = await admin.createRelayToken({ binCallsPerMonth: 2 });
    const { json } = await admin.call('GET', `/relay-tokens/${id}`);
    expect(json.binCallsPerMonth).toBe(2);
    const { name, scopes, apps, users, networks, expiresAt } = json;
    const wanted = { name, scopes, apps, users, networks, expiresAt, version, binCallsPerMonth: null };
    expect((await admin.call('PUT', `/relay-tokens/${id}`, wanted)).json.binCallsPerMonth).toBeNull();
    expect((await admin.call('POST', '/relay-tokens', { ...wanted, binCallsPerMonth: -1 })).status).toBe(400);
  });

  test('R93 an administrator enters, changes and clears the budget on the page of the token', async () => {
    const { agent } = await signIn(site, 'admin@example.test');
    const { id } = await admin.createRelayToken({ binCallsPerMonth: 2_000 });
    const open = () => agent.get(`${site.url}/admin/relay-tokens/${id}`);
    const edit = () => agent.get(`${site.url}/admin/relay-tokens/${id}/edit`);
    const submit = async (binCallsPerMonth: string) => agent.submit(await edit(), { binCallsPerMonth, days: '9' });
    expect((await open()).body).toContain('2,000 a month');
    expect((await submit('few')).body).toContain('Enter a whole number of calls from 0 to 999999999, or nothing.');
    expect((await submit('30')).body).toContain('30 a month');
    expect((await submit('')).body).toContain('All that are not reserved for users');
  });
});
