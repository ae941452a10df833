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
  const site = await startSite({ env: { RATE_LIMIT_PER_ADDRESS_PER_MINUTE: '0' } });
  const storage = await openStorageOf(site);
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  const admin = await createAdministrator(site, storage);
  const { token } = await admin.createRelayToken({ assertUser: true });

  // As many users with an expired connection as there are exchanges.
  const userRecord = await storage.store.get(keys.user(userId));
  const grant = await storage.readGrant(userId);
  const userIds = Array.from({ length: EXCHANGES }, () => randomBytes(8).toString('base64url'));
  for (const id of userIds) {
    const copiedUser = JSON.stringify({ ...JSON.parse(userRecord?.value ?? '{}'), id });
    await storage.store.write([{ put: keys.user(id), value: copiedUser }]);
    const expiredGrant = { ...grant, id, userId: id, expiresAt: Date.now() - 1_000 };
    expect(await storage.grants.save(expiredGrant, 0)).toBeDefined();
  }
  const otherUser = createUserAgent();
  const signInForm = await otherUser.get(`${site.url}/sign-in`);
  const endFault = site.sandbox.faults.set({
    listener: 'identity-provider',
    path: '/token',
    kind: 'slow',
    ms: PROVIDER_MS,
  });

  /** Returns the status. A connection that fails counts as a 503. */
  const exchangeFor = async (id: string) => {
    const form = { subject_token: id, subject_token_type: 'urn:gatehouse:token-type:user' };
    try {
      return (await exchange(site, token, form)).status;
    } catch {
      return 503;
    }
  };
  const exchanges = Promise.all(userIds.map(exchangeFor));
  // A refused call shows that the service has taken every slot, and every place in the queue, that it may have.
  await until(async () => (await countRefusedCalls(site)) > 0);

  const startedAt = performance.now();
  let page = await otherUser.submit(signInForm, { login: 'admin@example.test', password: PASSWORD });
  const isConsentPage = () => page.forms.some(({ buttons }) => buttons.some(({ text }) => text === 'Allow'));
  while (isConsentPage()) page = await otherUser.submit(page, {}, { button: 'Allow' });
  const milliseconds = performance.now() - startedAt;

  expect(page.url).toBe(`${site.url}/`);
  expect(milliseconds).toBeLessThan(2 * PROVIDER_MS + 300);
  endFault();
  expect(await exchanges).toContain(503);
  await storage.close();
  await site.close();
}, 180_000);
