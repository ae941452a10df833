/** The accounts that a connect link may connect, at providers with public and with pairwise subject identifiers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { disconnect, openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { attempt, expectNamedCause, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { bearer, createAdministrator } from './service.ts';

/** The ids of two apps of one provider: users sign in with the first. */
const [FIRST, SECOND] = ['elsewhere', 'second'];
const SECOND_CLIENT = 'hostile-client_2';
const ADA = { sub: 'ada', name: 'Ada Quill', email: 'ada@example.test' };
const BEN = { sub: 'ben', name: 'Ben Moss', email: 'ben@example.test' };
const REFUSED = 'You chose a different account than the one that this link is for';

let provider: HostileProvider;
const openResources: { close(): Promise<void> }[] = [];
beforeAll(async () => {
  provider = await startHostileProvider({ otherClientIds: [SECOND_CLIENT] });
});
afterEach(async () => {
  provider.reset();
  for (const resource of openResources.splice(0).reverse()) await resource.close();
});
afterAll(() => provider.close());

interface LinkSite extends HostileSite {
  storage: StorageAccess;
  /** Signs this account in at the provider, and in Gatehouse with the first app. */
  signIn(account: typeof ADA): Promise<{ agent: UserAgent; userId: string }>;
  /** Uses a connect link of the signed-in user, with this account at the provider. */
  useLink(user: { agent: UserAgent; userId: string }, app: string, account: typeof ADA): Promise<Page>;
}

/** @param subjectTypes `subject_types_supported` of the metadata. With `pairwise`, each client gets a different `sub` */
async function startLinkSite(subjectTypes: string[] | undefined): Promise<LinkSite> {
  provider.setModes({
    metadata: (metadata) => ({ ...metadata, subject_types_supported: subjectTypes }),
    subject: (sub, clientId) => (subjectTypes?.includes('pairwise') ? `${sub}@${clientId}` : sub),
  });
  const apps = ({ app }: HostileProvider, url: string) => [
    app(url),
    app(url, { id: SECOND, clientId: SECOND_CLIENT, signIn: undefined }),
  ];
  const site = await startHostileSite({ provider, apps });
  openResources.push(site);
  const storage = await openStorageOf(site);
  openResources.push(storage);
  const admin = await createAdministrator(site, storage);
  const { token } = await admin.createRelayToken({ apps: [FIRST, SECOND], assertUser: true });
  return {
    ...site,
    storage,
    async signIn(account) {
      provider.signInAs(account);
      const { agent } = await attempt(site, { agent: createUserAgent() });
      return { agent, userId: (await sessionOf(site, agent)).userId };
    },
    async useLink({ agent, userId }, app, account) {
      const creation = await sendRequest(`${site.url}/relay/connect-links`, {
        method: 'POST',
        headers: { ...bearer(token), ...JSON_BODY },
        body: JSON.stringify({ userId, app }),
      });
      const { url } = JSON.parse(creation.body);
      provider.signInAs(account);
      return agent.submit(await agent.get(url), {}, { button: 'Connect' });
    },
  };
}

/** Expects that this page refuses the account, and that nothing was stored for the second app. */
async function expectAccountRefused({ storage }: LinkSite, userId: string, page: Page): Promise<void> {
  expectNamedCause(page, REFUSED);
  expect(page.body).toContain('Use another account');
  expect(await storage.grants.loadStored(userId, SECOND)).toBeUndefined();
}

test.each([[['pairwise']], [['public', 'pairwise']]])(
  'R114 with subject types %j, a link connects an account whose `sub` differs between clients',
  async (subjectTypes) => {
    const site = await startLinkSite(subjectTypes);
    const ada = await site.signIn(ADA);
    const page = await site.useLink(ada, SECOND, ADA);
    expect([page.status, new URL(page.url).pathname]).toEqual([200, `/connections/${SECOND}`]);
    const { account } = await site.storage.readGrant(ada.userId, SECOND);
    expect(account.subject).toBe(`ada@${SECOND_CLIENT}`);
  },
);

test('R114 connects any account if the provider does not publish its subject types', async () => {
  const site = await startLinkSite(undefined);
  const ada = await site.signIn(ADA);
  expect((await site.useLink(ada, SECOND, BEN)).status).toBe(200);
  expect((await site.storage.readGrant(ada.userId, SECOND)).account.subject).toBe('ben');
});

test('R114 if `sub` is public, a link connects only the account that the user signed in with', async () => {
  const site = await startLinkSite(['public']);
  const ada = await site.signIn(ADA);
  await expectAccountRefused(site, ada.userId, await site.useLink(ada, SECOND, BEN));
  expect((await site.useLink(ada, SECOND, ADA)).status).toBe(200);
  expect((await site.storage.readGrant(ada.userId, SECOND)).account.subject).toBe('ada');
});

test('R114 even if `sub` is pairwise, a link for the sign-in app refuses another account', async () => {
  const site = await startLinkSite(['pairwise']);
  const ada = await site.signIn(ADA);
  const grantBefore = await site.storage.readGrant(ada.userId, FIRST);
  expectNamedCause(await site.useLink(ada, FIRST, BEN), REFUSED);
  expect(await site.storage.readGrant(ada.userId, FIRST)).toEqual(grantBefore);
  expect((await site.useLink(ada, FIRST, ADA)).status).toBe(200);
  expect((await site.storage.readGrant(ada.userId, FIRST)).accessToken).not.toBe(grantBefore.accessToken);
});

test('R114 refusing the account of another user leaves the connection of that user unchanged', async () => {
  const site = await startLinkSite(['public']);
  const ben = await site.signIn(BEN);
  const grantOfBen = await site.storage.readGrant(ben.userId, FIRST);
  const ada = await site.signIn(ADA);
  await disconnect(site, ada.agent, FIRST);
  provider.hits.length = 0;

  expectNamedCause(await site.useLink(ada, FIRST, BEN), REFUSED);

  expect((await getJson(ben.agent, `${site.url}/threads/current?app=${FIRST}`)).status).toBe(200);
  // A revocation, which must not come, would be sent in the background.
  await sleep(300);
  expect(provider.hitsOf('revocation')).toEqual([]);
  expect(await site.storage.readGrant(ben.userId, FIRST)).toEqual(grantOfBen);
});
