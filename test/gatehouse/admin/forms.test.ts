/** Forms of the administration. R106: a new secret is shown once, and reloading creates nothing. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

const SECRET = /data-copy-source>([^<]+)</;
const TOKEN = { name: 'Reports', days: '7' };
const RELAY_TOKEN = { ...TOKEN, apps: 'platform' };
/** Returns the path of a form. The form that creates an item is below the path of its list. */
const formOf = (path: string) => (path.includes('/') ? path : `${path}/new`);

/** The path of the list, the fields of the form, and a pattern for each row of the list. */
const FORMS: [string, Record<string, string>, RegExp][] = [
  ['relay-tokens', { ...RELAY_TOKEN, users: 'all' }, /\/relay-tokens\/\w+\/revoke/g],
  ['admin-tokens', { ...TOKEN, scope: 'read' }, /\/admin-tokens\/\w+\/revoke/g],
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

/** Submits the form, and returns the URL of the redirect without requesting it. */
const make = async (path: string, fields: Record<string, string>) => {
  const page = await agent.get(`${site.url}/admin/${formOf(path)}`);
  const form = page.forms.find(({ names }) => Object.keys(fields).every((name) => names.includes(name)));
  const body = new URLSearchParams([...(form?.fields ?? [])]);
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  const made = await agent.request(`${site.url}${form?.action}`, { method: 'POST', body, follow: false });
  expect([made.status, made.headers.get('cache-control'), secretOn(made)]).toEqual([303, 'no-store', undefined]);
  return new URL(made.headers.get('location') ?? '', site.url).href;
};

test.each(FORMS)('R106 %s: one redirect, one page with the secret, one thing', async (path, fields, rows) => {
  const url = await make(path, fields);
  const first = await agent.get(url);
  expect([first.status, first.headers.get('cache-control')]).toEqual([200, 'no-store']);
  const secret = secretOn(first);
  expect(secret?.length).toBeGreaterThan(40);
  expect(url).not.toContain(secret);
  const again = await agent.get(url);
  expect([again.status, secretOn(again), again.body.includes('class="notice')]).toEqual([200, undefined, false]);
  expect((await agent.get(`${site.url}/admin/${path}`)).body.match(rows)).toHaveLength(1);
});

test('R106 a rotated relay token shows its new secret once', async () => {
  const url = (await make('relay-tokens', RELAY_TOKEN)).split('?')[0] ?? '';
  const path = `relay-tokens/${url.split('/').at(-1)}`;
  const rotated = await make(`${path}/rotate`, { overlapHours: '0' });
  expect(secretOn(await agent.get(rotated))).toMatch(/^gthr_/);
  expect(secretOn(await agent.get(rotated))).toBeUndefined();
});

test.each([
  ['a page that is refused', 'GET', '&after=nonsense', 400],
  ['a HEAD', 'HEAD', '', 200],
])('R106 %s does not consume the secret', async (_what, method, query, status) => {
  const url = await make('admin-tokens', { ...TOKEN, scope: 'read' });
  const refused = await agent.request(`${url}${query}`, { method, follow: false });
  expect([refused.status, refused.body.includes('gtha_')]).toEqual([status, false]);
  expect(secretOn(await agent.get(url))).toMatch(/^gtha_/);
  expect(secretOn(await agent.get(url))).toBeUndefined();
});

test('faults are listed in the order of the page, with the number of the faulty entry', async () => {
  const page = await agent.get(`${site.url}/admin/relay-tokens/new`);
  const form = page.forms.find(({ names }) => names.includes('networks'));
  const body = new URLSearchParams([...(form?.fields ?? [])]);
  for (const [name, value] of Object.entries({
    networks: '10.0.0.0/8\nhere\nthere',
    days: '0',
    binCallsPerMonth: '-1',
  }))
    body.set(name, value);
  const refused = await agent.request(`${site.url}${form?.action}`, { method: 'POST', body });
  expect(refused.status).toBe(400);
  const faults = [...refused.body.matchAll(/<li><a href="#(\w+)">([^<]+)</g)].map(([, field, text]) => [field, text]);
  expect(faults).toEqual([
    ['name', 'Enter a name.'],
    ['networks', expect.stringMatching(/^Entry 2: This is not an address/)],
    ['networks', expect.stringMatching(/^Entry 3: This is not an address/)],
    ['days', expect.stringContaining('days')],
    ['binCallsPerMonth', expect.stringContaining('calls')],
  ]);
});

test.each([
  ['admin-tokens', { name: '', days: 'x', scope: 'all' }, ['name', 'scope', 'days']],
  ['webhooks', { url: 'nowhere', events: 'none' }, ['events']],
  ['service-accounts', { name: '', apiToken: '' }, ['name', 'apiToken']],
])(
  '%s: shows each fault next to its field, focuses the first, and keeps the entered values',
  async (path, fields, faulty) => {
    const page = await agent.get(`${site.url}/admin/${formOf(path)}`);
    const form = page.forms.find(({ names }) => Object.keys(fields).every((name) => names.includes(name)));
    const body = new URLSearchParams([...(form?.fields ?? [])]);
    for (const [name, value] of Object.entries(fields)) body.set(name, value);
    const refused = await agent.request(`${site.url}${form?.action}`, { method: 'POST', body });
    expect([refused.status, refused.body]).toEqual([400, expect.stringMatching(/<title>Error: /)]);
    expect([...refused.body.matchAll(/<li><a href="#(\w+)">/g)].map(([, field]) => field)).toEqual(faulty);
    for (const field of faulty) expect(refused.body).toContain(`id="${field}-fault"`);
    const focused = [...refused.body.matchAll(/<(?:input|select)[^>]* autofocus/g)].map(([tag]) => tag);
    expect(focused).toEqual([expect.stringContaining(`id="${faulty[0]}"`)]);
    if ('url' in fields) expect(refused.body).toContain('value="nowhere"');
  },
);

test('a test with a deleted relay token shows the fault next to the token', async () => {
  await make('relay-tokens', RELAY_TOKEN);
  const { body } = await agent.get(`${site.url}/admin/policy?token=gone&address=10.0.0.1`);
  expect(body).toMatch(/<title>Error: .*id="token"[^>]* aria-invalid="true".*id="token-fault"/s);
  expect(body).toContain('value="10.0.0.1"');
});

test('a relay token and a webhook are changed by their forms', async () => {
  const created = await agent.get(await make('relay-tokens', RELAY_TOKEN));
  const token = await agent.follow(created, 'Edit');
  const renamed = await agent.submit(token, { name: 'Renamed' }, { button: 'Save' });
  expect([renamed.status, renamed.body]).toEqual([200, expect.stringContaining('<h1><bdi>Renamed</bdi></h1>')]);
  const webhook = await agent.get(await make('webhooks', { url: 'http://127.0.0.1:1/hook' }));
  const moved = await agent.submit(webhook, { url: 'http://127.0.0.1:1/moved' }, { button: 'Save' });
  expect([moved.status, moved.body]).toEqual([200, expect.stringContaining('<bdi>http://127.0.0.1:1/moved</bdi>')]);
});

test.each([
  ['relay-tokens', RELAY_TOKEN, { name: '' }, { name: 'Mine' }],
  ['webhooks', { url: 'http://127.0.0.1:1/hook' }, { url: '' }, { url: 'http://127.0.0.1:1/mine' }],
])(
  '%s: a form that is corrected after a fault does not overwrite a change of another administrator',
  async (path, made, faulty, mine) => {
    const { url } = await agent.get(await make(path, made));
    const place = path === 'relay-tokens' ? `${url.split('?')[0]}/edit` : url;
    const [first, second] = [await agent.get(place), await agent.get(place)];
    expect((await agent.submit(second, made, { button: 'Save' })).status).toBe(200);
    const refused = await agent.submit(first, faulty, { button: 'Save' });
    expect(refused.status).toBe(400);
    const late = await agent.submit(refused, mine, { button: 'Save' });
    expect([late.status, late.body]).toEqual([409, expect.stringContaining('Someone else changed this')]);
    expect((await agent.submit(late, {}, { button: 'Save' })).status).toBe(200);
  },
);

test('a connected app is changed by its form', async () => {
  const page = await agent.get(`${site.url}/admin/register-app`);
  const app = {
    id: 'by-form',
    name: 'By form',
    issuer: site.sandbox.issuer,
    clientId: 'c',
    clientSecret: 'a secret',
  };
  const { clientId, clientSecret, ...provider } = app;
  const next = await agent.submit(page, provider, { button: 'Continue' });
  const registered = await agent.submit(next, { clientId, clientSecret }, { button: 'Register app' });
  expect(registered.body).toContain('The app is registered');
  const form = await agent.get(`${site.url}/admin/connected-apps/by-form`);
  const renamed = await agent.submit(form, { name: 'Renamed' }, { button: 'Save' });
  expect([renamed.status, renamed.body]).toEqual([200, expect.stringContaining('<h1><bdi>Renamed</bdi></h1>')]);
});

test('R106 each of two tabs shows its own secret, and another session shows none', async () => {
  const [one, two] = [await make('admin-tokens', FORMS[1]?.[1] ?? {}), await make('admin-tokens', FORMS[1]?.[1] ?? {})];
  const { agent: other } = await signIn(site, 'admin@example.test');
  expect(secretOn(await other.get(one))).toBeUndefined();
  const secrets = [secretOn(await agent.get(two)), secretOn(await agent.get(one))];
  expect(secrets).toEqual([expect.stringMatching(/^gtha_/), expect.stringMatching(/^gtha_/)]);
  expect(secrets[0]).not.toBe(secrets[1]);
});
