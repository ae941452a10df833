/** R61: no access token, refresh token, code verifier or client secret ever reaches a browser. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserAgent, type Page } from '../../support/browserless.ts';
import { CLIENT_SECRET, JSON_ONLY, PASSWORD, startSite, type TestSite } from '../../support/gatehouse.ts';
import { type OutboundRecorder, recordOutbound } from '../../support/outbound-recorder.ts';
import { ROUTES } from '../../support/routes.ts';
import { advanceClock } from '../../support/test-clock.ts';

let recorder: OutboundRecorder;
let site: TestSite;
beforeAll(async () => {
  recorder = recordOutbound();
  site = await startSite({ sandbox: { accessTokenSeconds: 2 }, env: { LOG_LEVEL: 'trace' } });
});
afterAll(async () => {
  recorder.stop();
  await site.close();
});

test('R61 no route or error page reveals a secret, through expiry, refresh and disconnect', async () => {
  const agent = createUserAgent();
  const received: string[] = [];
  const record = (page: Page) => {
    received.push(`${page.url} ${JSON.stringify([...page.headers])} ${page.body}`);
    return page;
  };
  let page = record(await agent.get(`${site.url}/sign-in`));
  page = record(await agent.submit(page, { login: 'user@example.test', password: PASSWORD }));
  page = record(await agent.submit(page, {}, { button: 'Allow' }));
  const visitAll = async () => {
    for (const { method, path } of ROUTES) {
      if (path === '/sign-out' || path === '/oauth/callback/:app') continue;
      for (const options of [{}, JSON_ONLY])
        record(await agent.request(site.url + path, { ...options, method, follow: false }));
    }
  };
  await visitAll();
  advanceClock(2.1);
  await visitAll();
  for (const kind of ['error', 'garbage', 'unavailable'] as const) {
    const clearFault = site.sandbox.faults.set({ listener: 'platform', kind });
    await visitAll();
    clearFault();
  }
  advanceClock(2.1);
  for (const kind of ['error', 'garbage', 'unavailable'] as const) {
    const clearFault = site.sandbox.faults.set({ listener: 'identity-provider', kind });
    await visitAll();
    clearFault();
  }
  for (const failingPath of ['/oauth/callback/platform?error=access_denied&state=x', '/nothing'])
    record(await agent.get(site.url + failingPath));
  const connection = record(await agent.get(`${site.url}/connections/platform`));
  record(await agent.submit(connection, {}, { button: 'Disconnect' }));

  const ports = [site.sandbox.issuer, site.sandbox.platformUrl].map((url) => Number(new URL(url).port));
  const sent = recorder.sentTo(ports);
  const canaries = new Set([CLIENT_SECRET]);
  const formFields = /\b(?:refresh_token|code_verifier|token|client_secret)=([\w-]{16,})/g;
  for (const [, value = ''] of sent.matchAll(formFields)) canaries.add(value);
  for (const [, value = ''] of sent.matchAll(/authorization: Bearer ([\w.-]+)/gi)) canaries.add(value);
  for (const [, value = ''] of sent.matchAll(/authorization: Basic ([\w+/=]+)/gi)) {
    canaries.add(value);
    canaries.add(Buffer.from(value, 'base64').toString().split(':')[1] ?? value);
  }
  // Without at least two access tokens, two refresh tokens, a verifier and the secret, the test would prove nothing.
  expect(canaries.size).toBeGreaterThanOrEqual(6);
  expect(received.length).toBeGreaterThan(100);

  const responses = received.join('\n');
  const logs = site.logs().join('\n');
  for (const canary of canaries) {
    expect(responses.includes(canary), 'a token or secret reached the browser').toBe(false);
    expect(logs.includes(canary), 'a token or secret is in the log').toBe(false);
  }
});
