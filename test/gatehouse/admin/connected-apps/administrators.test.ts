/**
 * ADMIN_APP: only an app of the file makes administrators, so an admin token cannot create one by registering an
 * issuer.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../../../support/send-request.ts';
import { createAdminToken } from '../../../support/terminal.ts';

let site: TestSite;
beforeAll(async () => {
  // No app of the file signs users in, so the registered app is the only one that does.
  site = await startSite({ app: { signIn: undefined } });
  const created = await sendRequest(`${site.url}/admin/api/connected-apps`, {
    method: 'POST',
    headers: { ...ACCEPT_JSON, ...JSON_BODY, authorization: `Bearer ${await createAdminToken(site)}` },
    body: JSON.stringify(sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET })),
  });
  expect(created.status).toBe(201);
});
afterAll(() => site.close());

test('R88 a registered app makes no administrators, even as the only app and after a restart', async () => {
  for (const isRestarted of [false, true]) {
    if (isRestarted) await site.restart();
    const { agent } = await signIn(site, 'admin@example.test');
    expect((await getJson(agent, `${site.url}/session`)).json).toMatchObject({
      signedIn: true,
      user: { admin: false },
    });
    expect((await agent.get(`${site.url}/admin`)).status).toBe(403);
  }
});
