/** Session secrets replaced in the order of docs/operating.md sign no user out until the old one is removed. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site?.close());

const isSignedIn = async (agent: UserAgent) => (await getJson(agent, `${site.url}/session`)).json.signedIn;

test('the first secret signs and all verify: the new one added last, moved first, then left as the only one', async () => {
  const oldSecret = site.env.SESSION_SECRETS ?? '';
  const newSecret = randomBytes(48).toString('base64');
  const restartWith = async (...secrets: string[]) => {
    site.env.SESSION_SECRETS = secrets.join(',');
    await site.restart();
  };
  const { agent: early } = await signIn(site);
  await restartWith(oldSecret, newSecret);
  const { agent: between } = await signIn(site);
  await restartWith(newSecret, oldSecret);
  const { agent: late } = await signIn(site);
  expect(await Promise.all([early, between, late].map(isSignedIn))).toEqual([true, true, true]);

  // A session that another process signed with a secret that this one does not have yet is not accepted.
  await restartWith(oldSecret);
  expect(await Promise.all([early, between, late].map(isSignedIn))).toEqual([true, true, false]);

  await restartWith(newSecret);
  expect(await Promise.all([early, between, late].map(isSignedIn))).toEqual([false, false, true]);
});
