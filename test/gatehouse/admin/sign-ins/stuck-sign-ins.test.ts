/** Sign-ins without a callback, such as with a callback URL that is not registered: their pages, at once and later. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserAgent, type UserAgent } from '../../../support/browserless.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { advanceClock } from '../../../support/test-clock.ts';

let site: TestSite;
let admin: UserAgent;
beforeAll(async () => {
  site = await startSite({
    apps: (parts) => [
      sandboxApp(parts, 'platform'),
      {
        ...sandboxApp(parts, 'platform', { name: 'Unregistered' }),
        id: 'unregistered',
        callbackUrls: [`${parts.url}/oauth/callback/unregistered`],
      },
    ],
    env: { ADMIN_APP: 'platform' },
  });
  ({ agent: admin } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' }));
});
afterAll(() => site.close());

const readList = async () => (await admin.get(`${site.url}/admin/sign-ins`)).body;
const causesIn = (body: string) => /id="groups-title"(.*?)<\/table>/s.exec(body)?.[1] ?? '';

test('a stuck sign-in shows the probable cause at once, and is later counted among the causes of failures', async () => {
  for (let round = 0; round < 2; round += 1) {
    const page = await createUserAgent().get(`${site.url}/sign-in?app=unregistered`);
    expect(page.url).toContain(site.sandbox.issuer);
  }
  const listAtOnce = await readList();
  expect(listAtOnce).toContain('No response yet');
  expect(causesIn(listAtOnce)).toBe('');
  const path = /\/admin\/sign-ins\/[0-9a-f]{8}/.exec(listAtOnce)?.[0] ?? 'none';
  const record = await admin.get(site.url + path);
  expect(record.body).toContain('the callback URL is most likely not registered there');
  expect(record.body).toContain(`<code>${site.url}/oauth/callback/unregistered</code>`);
  const check = await admin.submit(record, {}, { button: 'Check Unregistered now' });
  expect(check.body).toMatch(/Callback URL is registered at the provider.*?Failed/s);

  const denied = createUserAgent();
  const loginPage = await denied.get(`${site.url}/sign-in?app=platform`);
  const consent = await denied.submit(loginPage, { login: 'user@example.test', password: 'gatehouse-demo' });
  await denied.submit(consent, {}, { button: 'Deny' });
  advanceClock(180);
  const causes = causesIn(await readList());
  const stuckRecord = await admin.get(site.url + path);
  advanceClock(-180);
  const rows = causes.split('<tr>').slice(2);
  expect(rows.map((row) => /data-label="Count"[^>]*><a[^>]*>(\d+)/.exec(row)?.[1])).toEqual(['2', '1']);
  expect(rows[0]).toContain('Started, but the browser did not come back');
  expect(rows[0]).toMatch(/connected-apps\/unregistered\/settings#[^"]+">Callback URLs</);
  expect(stuckRecord.body).toMatch(
    /1 other sign-in failed for the same cause\. <a href="[^"]*\/admin\/sign-ins\?app=unregistered&amp;cause=nothing_came_back">/,
  );
});
