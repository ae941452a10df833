/** The page and the API call for keys. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { recordsOfOlderKeys, wordsOfKind } from '../../../../src/gatehouse/admin/keys/routes.ts';
import { keys, SEALED_KINDS } from '../../../../src/shared/storage/keys.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../../../support/send-request.ts';

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(() => site.close());

test('the first request does not wait for the count, and later ones have it', async () => {
  const [kid = ''] = String(site.env.ENCRYPTION_KEYS).split(':');
  // Both requests at once, since the first one begins the count.
  const [{ json }, page] = await Promise.all([
    getJson(agent, `${site.url}/admin/api/keys`),
    agent.get(`${site.url}/admin/keys`),
  ]);
  expect(json).toMatchObject({
    countedAt: null,
    encryptionKeys: [{ kid, encrypts: true, configured: true, removable: false, records: null, kinds: null }],
    processCount: null,
    signingKeys: [{ active: true }],
  });
  expect([page.body.includes(kid), page.body.includes('Counting…')]).toEqual([true, true]);
  expect(page.headers.get('refresh')).toBe('2');
  await expect.poll(async () => (await agent.get(`${site.url}/admin/keys`)).body).toContain('1 process is running');
  expect((await agent.get(`${site.url}/admin/keys`)).headers.get('refresh')).toBeNull();
});

test('R48: API and page show how many records each key seals, and never a key', async () => {
  const [kid = '', material = ''] = String(site.env.ENCRYPTION_KEYS).split(':');
  const { status, json } = await getJson(agent, `${site.url}/admin/api/keys`);
  expect(status).toBe(200);
  expect(json).toMatchObject({
    encryptionKeys: [{ kid, encrypts: true, configured: true, removable: false, kinds: { grant: 1 } }],
    processCount: 1,
    signingKeys: [{ active: true }],
  });
  const page = await agent.get(`${site.url}/admin/keys`);
  expect(page.status).toBe(200);
  expect(page.body).toContain(kid);
  expect(page.body).toContain('connections: 1');
  expect(page.body).not.toContain('grant: 1');
  for (const text of [page.body, JSON.stringify(json)]) {
    expect(text).not.toContain(material);
    expect(text).not.toMatch(/"d":/);
  }
});

test.each([
  [undefined, 'All records encrypted by an older key are'],
  [1, 'The record encrypted by an older key is'],
  [1_234, 'The 1,234 records encrypted by an older key are'],
])('the question before a rotation has the number of records: %s', (count, text) => {
  expect(recordsOfOlderKeys(count)).toBe(text);
});

test('the page has words for every kind of encrypted record, and shows a kind of a later version as stored', () => {
  const kinds = Object.keys(SEALED_KINDS).filter((kind) => kind !== keys.keyCheck);
  expect(kinds.map(wordsOfKind).toSorted()).toEqual([
    'ID tokens of sessions',
    'admin tokens',
    'apps',
    'connect links',
    'connections',
    'notices after a change',
    'pending requests',
    'relay tokens',
    'return paths of sign-ins',
    'service accounts',
    'sessions',
    'signing keys',
    'submitted forms',
    'unconfirmed revocations',
    'webhooks',
  ]);
  expect(wordsOfKind('later-kind')).toBe('later-kind');
});

test('R88: publishing the next signing key twice publishes one key, with an audit entry for each call', async () => {
  const { json } = await getJson(agent, `${site.url}/session`);
  const headers = {
    ...ACCEPT_JSON,
    ...JSON_BODY,
    cookie: agent.cookies.header(site.url),
    'x-csrf-token': String(json.csrfToken),
  };
  for (let times = 0; times < 2; times += 1) {
    const { status } = await sendRequest(`${site.url}/admin/api/keys/rotate-signing`, {
      method: 'POST',
      headers,
      body: '{}',
    });
    expect(status).toBe(204);
  }
  const { json: published } = await getJson(agent, `${site.url}/admin/api/keys`);
  expect((published.signingKeys as { active: boolean }[]).map(({ active }) => active).sort()).toEqual([false, true]);
  const { json: trail } = await getJson(agent, `${site.url}/admin/api/audit?event=signing_key.rotated`);
  expect(trail.items).toHaveLength(2);
});
