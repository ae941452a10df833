/** R134: a service that floods a slow provider with refreshes, and a user beside it who signs in. */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createUserAgent } from '../../support/browserless.ts';
import { PASSWORD, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, sessionOf } from '../grants/storage-access.ts';
import { createAdministrator, exchange } from './service.ts';

const EXCHANGES = 1_200;
const PROVIDER_MS = 3_000;

async function countRefusedCalls({ managementUrl }: TestSite): Promise<number> {
  const { body } = await sendRequest(`${managementUrl}/metrics`);
  return Number(/^gatehouse_outbound_refused_total (\d+)$/m.exec(body)?.[1]);
}

test('R134 1,200 exchanges of one service at a provider that takes 3 s leave another user’s sign-in a slot', async () => {
  const site = await startSite({ env: { RATE_LIMIT_PER_ADDRESS: '0' } });
  const storage = await openStorageOf(site);
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  const { token } = await (await createAdministrator(site, storage)).createRelayToken({ assertUser: true });
  const user = await storage.store.get(keys.user(userId));
  const grant = await storage.readGrant(userId);
  const userIds = Array.from({ length: EXCHANGES }, () => randomBytes(8).toString('base64url'));
  for (const id of userIds) {
    const record = JSON.stringify({ ...JSON.parse(user?.value ?? '{}'), id });
    await storage.store.write([{ put: keys.user(id), value: record }]);
    const expired = { ...grant, id, userId: id, expiresAt: Date.now() - 1_000 };
    expect(await storage.grants.save(expired, 0)).toBeDefined();
  }
  const other = createUserAgent();
  const form = await other.get(`${site.url}/sign-in`);
  const release = site.sandbox.faults.set({
    listener: 'identity-provider',
    path: '/token',
    kind: 'slow',
    ms: PROVIDER_MS,
  });

  const flood = Promise.all(
    userIds.map((id) =>
      exchange(site, token, { subject_token: id, subject_token_type: 'urn:gatehouse:token-type:user' }).then(
        ({ status }) => status,
        () => 503,
      ),
    ),
  );
  // From then on every slot and place that the service may have is taken.
  await until(async () => (await countRefusedCalls(site)) > 0);
  const startedAt = performance.now();
  let page = await other.submit(form, { login: 'admin@example.test', password: PASSWORD });
  while (page.forms.some(({ buttons }) => buttons.some(({ text }) => text === 'Allow')))
    page = await other.submit(page, {}, { button: 'Allow' });
  const milliseconds = performance.now() - startedAt;
  expect(page.url).toBe(`${site.url}/`);
  expect(milliseconds).toBeLessThan(2 * PROVIDER_MS + 300);
  release();
  const statuses = await flood;
  expect(statuses).toContain(503);
  await storage.close();
  await site.close();
}, 180_000);
