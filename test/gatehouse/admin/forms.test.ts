/** Forms of the administration. R106: a new secret is shown once, and reloading creates nothing. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Page, UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

const SECRET = /data-copy-source>([^<]+)</;
const TOKEN = { name: 'Reports', expiry: '30' };
const RELAY_TOKEN = { ...TOKEN, apps: 'platform' };
const ADMIN_TOKEN = { ...TOKEN, scope: 'read' };
/** Returns the path of a form. The form that creates an item is below the path of its list. */
const formOf = (path: string) => (path.includes('/') ? path : `${path}/new`);

const FORMS: [listPath: string, fields: Record<string, string>, rowPattern: RegExp][] = [
  ['relay-tokens', { ...RELAY_TOKEN, users: 'all' }, /\/relay-tokens\/\w+\/revoke/g],
  ['admin-tokens', ADMIN_TOKEN, /\/admin-tokens\/\w+\/revoke/g],
  ['webhooks', { url: 'http://127.0.0.1:1/hook' }, /\/webhooks\/\w+\/remove/g],
];

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(async () => {
  await site?.close();
});

const secretOn = ({ body }: { body: string }) => SECRET.exec(body)?.[1];

/** Sends the form on this page that has these fields, without following a redirect unless `follow` is set. */
async function sendForm(path: string, fields: Record<string, string>, follow = false): Promise<Page> {
  const page = await agent.get(`${site.url}/admin/${formOf(path)}`);
  const form = page.forms.find(({ names }) => Object.keys(fields).every((name) => names.includes(name)));
  const body = new URLSearchParams([...(form?.fields ?? [])]);
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  return agent.request(`${site.url}${form?.action}`, { method: 'POST', body, follow });
}

/** Creates an item with the form, and returns the URL of the redirect without requesting it. */
async function createByForm(path: string, fields: Record<string, string>): Promise<string> {
  const response = await sendForm(path, fields);
  expect([response.status, response.headers.get('cache-control'), secretOn(response)]).toEqual([
    ...[303, 'no-store', undefined],
  ]);
  return new URL(response.headers.get('location') ?? '', site.url).href;
}

test.each(FORMS)('R106 %s: a form creates one item and shows its secret once', async (path, fields, rowPattern) => {
  const url = await createByForm(path, fields);

  const firstView = await agent.get(url);
  expect([firstView.status, firstView.headers.get('cache-control')]).toEqual([200, 'no-store']);
  const secret = secretOn(firstView);
  expect(secret?.length).toBeGreaterThan(40);
  expect(url).not.toContain(secret);

  const secondView = await agent.get(url);
  const hasNotice = secondView.body.includes('class="notice');
  expect([secondView.status, secretOn(secondView), hasNotice]).toEqual([200, undefined, false]);
  expect((await agent.get(`${site.url}/admin/${path}`)).body.match(rowPattern)).toHaveLength(1);
});

test('R106 a rotated relay token shows its new secret once', async () => {
  const [urlOfToken = ''] = (await createByForm('relay-tokens', RELAY_TOKEN)).split('?');
  const id = urlOfToken.split('/').at(-1);

  const urlOfSecret = await createByForm(`relay-tokens/${id}/rotate`, { overlapHours: '0' });

  expect(secretOn(await agent.get(urlOfSecret))).toMatch(/^gthr_/);
  expect(secretOn(await agent.get(urlOfSecret))).toBeUndefined();
});

test.each([
  ['a page that is refused', 'GET', '&after=nonsense', 400],
  ['a HEAD', 'HEAD', '', 200],
])('R106 %s does not consume the secret', async (_what, method, query, status) => {
  const url = await createByForm('admin-tokens', ADMIN_TOKEN);

  const response = await agent.request(`${url}${query}`, { method, follow: false });

  expect([response.status, response.body.includes('gtha_')]).toEqual([status, false]);
  expect(secretOn(await agent.get(url))).toMatch(/^gtha_/);
  expect(secretOn(await agent.get(url))).toBeUndefined();
});

test('faults are listed in the order of the page, with the number of the faulty entry', async () => {
  const fields = { networks: '10.0.0.0/8\nhere\nthere', expiry: 'date', binCallsPerMonth: '-1' };
  const refused = await sendForm('relay-tokens', fields, true);

  expect(refused.status).toBe(400);
  const faults = [...refused.body.matchAll(/<li><a href="#(\w+)">([^<]+)</g)].map(([, field, text]) => [field, text]);
  expect(faults).toEqual([
    ['name', 'Enter a name.'],
    ['networks', expect.stringMatching(/^Entry 2: This is not an address/)],
    ['networks', expect.stringMatching(/^Entry 3: This is not an address/)],
    ['expiresOn', 'Enter a date such as 2027-01-31.'],
    ['binCallsPerMonth', expect.stringContaining('calls')],
  ]);
});

test.each([
  ['admin-tokens', { name: '', expiry: 'x', scope: 'all' }, ['name', 'scope', 'expiry']],
  ['webhooks', { url: 'nowhere', events: 'none' }, ['events']],
  ['service-accounts', { name: '', apiToken: '' }, ['name', 'apiToken']],
])(
  '%s: shows each fault next to its field, focuses the first, and keeps the entered values',
  async (path, fields, faultyFields) => {
    const refused = await sendForm(path, fields, true);

    expect([refused.status, refused.body]).toEqual([400, expect.stringMatching(/<title>Error: /)]);
    const listedFields = [...refused.body.matchAll(/<li><a href="#(\w+)">/g)].map(([, field]) => field);
    expect(listedFields).toEqual(faultyFields);
    for (const field of faultyFields) expect(refused.body).toContain(`id="${field}-fault"`);
    const focusedTags = [...refused.body.matchAll(/<(?:input|select)[^>]* autofocus/g)].map(([tag]) => tag);
    expect(focusedTags).toEqual([expect.stringContaining(`id="${faultyFields[0]}"`)]);
    if ('url' in fields) expect(refused.body).toContain('value="nowhere"');
  },
);

test('a test with a deleted relay token shows the fault next to the token', async () => {
  await createByForm('relay-tokens', RELAY_TOKEN);
  const { body } = await agent.get(`${site.url}/admin/policy?token=gone&address=10.0.0.1`);
  expect(body).toMatch(/<title>Error: .*id="token"[^>]* aria-invalid="true".*id="token-fault"/s);
  expect(body).toContain('value="10.0.0.1"');
  // Nothing is ever saved there.
  expect(body).toContain('<strong>Correct this and try again:</strong>');
});

test('a relay token and a webhook are changed by their forms', async () => {
  const created = await agent.get(await createByForm('relay-tokens', RELAY_TOKEN));
  const editForm = await agent.follow(await agent.follow(created, 'I have stored it'), 'Edit');
  const renamed = await agent.submit(editForm, { name: 'Renamed' }, { button: 'Save' });
  expect([renamed.status, renamed.body]).toEqual([200, expect.stringContaining('<h1><bdi>Renamed</bdi></h1>')]);

  const webhook = await agent.get(await createByForm('webhooks', { url: 'http://127.0.0.1:1/hook' }));
  const editWebhook = await agent.follow(await agent.follow(webhook, 'I have stored it'), 'Edit');
  const moved = await agent.submit(editWebhook, { url: 'http://127.0.0.1:1/moved' }, { button: 'Save' });
  expect([moved.status, moved.body]).toEqual([200, expect.stringContaining('<bdi>http://127.0.0.1:1/moved</bdi>')]);
});

test('a connected app is changed by its form', async () => {
  const providerFields = { id: 'by-form', name: 'By form', issuer: site.sandbox.issuer };
  const clientFields = { clientId: 'c', clientSecret: 'a secret' };
  const firstStep = await agent.get(`${site.url}/admin/register-app`);
  const secondStep = await agent.submit(firstStep, providerFields, { button: 'Continue' });
  const registered = await agent.submit(secondStep, clientFields, { button: 'Register app' });
  expect(registered.body).toContain('The app is registered');

  const form = await agent.get(`${site.url}/admin/connected-apps/by-form/settings`);
  const renamed = await agent.submit(form, { name: 'Renamed' }, { button: 'Save' });
  expect([renamed.status, renamed.body]).toEqual([200, expect.stringContaining('<h1><bdi>Renamed</bdi></h1>')]);
});

test('R106 each of two tabs shows its own secret, and another session shows none', async () => {
  const urlInFirstTab = await createByForm('admin-tokens', ADMIN_TOKEN);
  const urlInSecondTab = await createByForm('admin-tokens', ADMIN_TOKEN);

  const { agent: otherSession } = await signIn(site, 'admin@example.test');
  expect(secretOn(await otherSession.get(urlInFirstTab))).toBeUndefined();
  const secrets = [secretOn(await agent.get(urlInSecondTab)), secretOn(await agent.get(urlInFirstTab))];
  expect(secrets).toEqual([expect.stringMatching(/^gtha_/), expect.stringMatching(/^gtha_/)]);
  expect(secrets[0]).not.toBe(secrets[1]);
});
