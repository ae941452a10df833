/** Metrics per connected app: unknown ids add no series, and deleting an app removes its series. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../../support/send-request.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

async function samples(): Promise<string[]> {
  const { body } = await sendRequest(`${site.managementUrl}/metrics`);
  return body.split('\n');
}

/** The value of this series. */
const sampleOf = (lines: readonly string[], series: string) =>
  Number(lines.find((line) => line.startsWith(`gatehouse_${series} `))?.split(' ')[1]);

test('sign-ins and calls count for their app', async () => {
  const samplesBefore = await samples();
  expect(sampleOf(samplesBefore, 'sign_ins_total{app="platform",outcome="signed_in"}')).toBe(0);
  expect(sampleOf(samplesBefore, 'refreshes_total{app="platform",outcome="unavailable"}')).toBe(0);
  expect(sampleOf(samplesBefore, 'refresh_duration_seconds_count{app="platform"}')).toBe(0);

  const { agent } = await signIn(site, undefined, { path: '/sign-in?return_to=/connections' });
  await agent.get(`${site.url}/threads/current`);
  const samplesAfter = await samples();
  expect(sampleOf(samplesAfter, 'sign_ins_total{app="platform",outcome="signed_in"}')).toBe(1);
  expect(sampleOf(samplesAfter, 'outbound_requests_total{app="platform",peer="platform",outcome="2xx"}')).toBe(1);
  expect(sampleOf(samplesAfter, 'outbound_request_duration_seconds_count{app="platform",peer="platform"}')).toBe(1);
  // Discovery, code exchange, keys and userinfo.
  expect(
    sampleOf(samplesAfter, 'outbound_requests_total{app="platform",peer="provider",outcome="2xx"}'),
  ).toBeGreaterThan(2);
  // `other` counts the ids that no app has.
  expect(sampleOf(samplesAfter, 'outbound_requests_total{app="other",peer="provider",outcome="2xx"}')).toBe(0);
});

test('a 503 of the platform counts as outcome 5xx', async () => {
  const { agent } = await signIn(site, undefined, { path: '/sign-in?return_to=/connections' });
  const failures = 'outbound_requests_total{app="platform",peer="platform",outcome="5xx"}';
  const before = sampleOf(await samples(), failures);
  site.sandbox.faults.set({ listener: 'platform', kind: 'unavailable', times: 1 });
  await agent.get(`${site.url}/threads/current`);
  await expect.poll(async () => sampleOf(await samples(), failures)).toBe(before + 1);
});

test('a callback for an unknown app adds no series', async () => {
  const failed = 'sign_ins_total{app="other",outcome="failed"}';
  const before = sampleOf(await samples(), failed);
  await sendRequest(`${site.url}/oauth/callback/invented-by-a-caller?state=abc&code=def`);
  const lines = await samples();
  expect(sampleOf(lines, failed)).toBe(before + 1);
  expect(lines.filter((line) => line.includes('invented'))).toEqual([]);
});

test('a registered app has series from 0, and none once it is deleted', async () => {
  const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
  const { json } = await getJson(agent, `${site.url}/session`);
  const headers = {
    ...ACCEPT_JSON,
    ...JSON_BODY,
    cookie: agent.cookies.header(site.url),
    'x-csrf-token': String(json.csrfToken),
  };
  const url = `${site.url}/admin/api/connected-apps`;
  const body = JSON.stringify(sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET }));
  const created = await sendRequest(url, { method: 'POST', headers, body });
  expect(created.status).toBe(201);
  expect(sampleOf(await samples(), 'refreshes_total{app="second",outcome="refused"}')).toBe(0);

  const { version } = JSON.parse(created.body) as { version: number };
  const deleted = await sendRequest(`${url}/second?version=${version}`, { method: 'DELETE', headers });
  expect(deleted.status).toBe(204);
  expect((await samples()).filter((line) => line.includes('app="second"'))).toEqual([]);
});
