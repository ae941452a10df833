/** The expiry of tokens, as forms ask for it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

const DAY_MS = 86_400_000;
let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(() => site?.close());

const open = (path: string) => agent.get(`${site.url}/admin/${path}`);
const dayIn = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10);

const KINDS = [
  ['relay-tokens', 'Create relay token', { scopes: 'bin:read' }],
  ['admin-tokens', 'Create admin token', { scope: 'write' }],
] as const;

async function expiriesOf(path: string): Promise<Record<string, string>> {
  const { body } = await agent.get(`${site.url}/admin/api/${path}`, { headers: { accept: 'application/json' } });
  const { items } = JSON.parse(body) as { items: { name: string; expiresAt: string }[] };
  return Object.fromEntries(items.map(({ name, expiresAt }) => [name, expiresAt]));
}

test.each(KINDS)('%s: 30 days are 30 days', async (path, button, fields) => {
  const created = await agent.submit(await open(`${path}/new`), { ...fields, name: 'Month', expiry: '30' }, { button });
  expect(created.status).toBe(200);
  expect(Date.parse((await expiriesOf(path)).Month ?? '') / DAY_MS - Date.now() / DAY_MS).toBeCloseTo(30, 2);
  expect((await open(path)).body).toContain('>in 30 days</time>');
});

test.each(KINDS)(
  '%s: asks about more than a year, keeps what was typed, and asks again after another date',
  async (path, button, fields) => {
    const day = dayIn(3 * 365.25);
    const typed = { ...fields, name: 'Long', expiry: 'date', expiresOn: day };
    const asked = await agent.submit(await open(`${path}/new`), typed, { button });
    expect(asked.status).toBe(200);
    expect(asked.body).toMatch(/This token works for 3 years, until \d+ \w+ \d{4}\. Create it\?/);
    expect(asked.body).not.toContain('<title>Error');
    expect(asked.body).not.toContain('Nothing was saved');
    expect(Object.keys(await expiriesOf(path))).not.toContain('Long');
    const shown = asked.forms.find(({ names }) => names.includes('expiresOn'));
    expect(Object.fromEntries(shown?.fields ?? [])).toMatchObject(typed);

    const again = await agent.submit(asked, { expiresOn: dayIn(5 * 365.25) }, { button });
    expect(again.body).toContain('This token works for 5 years');
    expect((await agent.submit(asked, {}, { button })).status).toBe(200);
    expect(await expiriesOf(path)).toMatchObject({ Long: `${day}T23:59:59.000Z` });
  },
);

test.each(KINDS)('%s: a year is not asked about', async (path, button, fields) => {
  const typed = { ...fields, name: 'Year', expiry: 'date', expiresOn: dayIn(365) };
  const created = await agent.submit(await open(`${path}/new`), typed, { button });
  expect(created.body).toMatch(/gth[ar]_[0-9A-Za-z]{60}/);
});

test('a day more than a year is asked about in whole words', async () => {
  const typed = { name: 'Day', expiry: 'date', expiresOn: dayIn(367) };
  const asked = await agent.submit(await open('admin-tokens/new'), typed, { button: 'Create admin token' });
  expect(asked.body).toMatch(/This token works for more than a year, until/);
});

test.each(KINDS)('%s: a past or an impossible date is refused beside its field', async (path, button, fields) => {
  for (const expiresOn of ['2020-01-01', '2027-02-30', '', '99999']) {
    const typed = { ...fields, name: 'Never', expiry: 'date', expiresOn };
    const refused = await agent.submit(await open(`${path}/new`), typed, { button });
    expect([expiresOn, refused.status, refused.body]).toEqual([
      ...[expiresOn, 400, expect.stringContaining('id="expiresOn-fault"')],
    ]);
  }
});

test('an admin token of more than ten years is refused, not cut', async () => {
  const typed = { name: 'Ages', expiry: 'date', expiresOn: dayIn(11 * 365.25) };
  const asked = await agent.submit(await open('admin-tokens/new'), typed, { button: 'Create admin token' });
  const refused = await agent.submit(asked, {}, { button: 'Create admin token' });
  expect([refused.status, refused.body]).toEqual([400, expect.stringContaining('at most ten years from now')]);
});

test('a change keeps the expiry, and asks about a later one', async () => {
  const created = await agent.submit(
    await open('relay-tokens/new'),
    { name: 'Kept', scopes: 'bin:read', expiry: '90' },
    { button: 'Create relay token' },
  );
  const edit = await agent.get(`${new URL(created.url).origin}${new URL(created.url).pathname}/edit`);
  const before = (await expiriesOf('relay-tokens')).Kept;
  await agent.submit(edit, { name: 'Renamed' }, { button: 'Save' });
  expect(await expiriesOf('relay-tokens')).toMatchObject({ Renamed: before });
  const asked = await agent.submit(
    await agent.get(edit.url),
    { expiry: 'date', expiresOn: dayIn(1_000) },
    { button: 'Save' },
  );
  expect(asked.body).toMatch(/This token works for 2\.7 years, until [^.]+\. Save it\?/);
  expect(await expiriesOf('relay-tokens')).toMatchObject({ Renamed: before });
});
