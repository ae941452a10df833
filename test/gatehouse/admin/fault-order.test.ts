/** Every form of the administration, sent with nonsense: its faults stand in the order of its fields. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Page } from '../../support/browserless.ts';
import type { Form } from '../../support/html-forms.ts';
import { ROUTE_TABLE } from '../../support/routes.ts';
import { type FilledSite, startFilledSite } from './filled-site.ts';

let filled: FilledSite;
beforeAll(async () => {
  filled = await startFilledSite();
});
afterAll(() => filled?.close());

const RECORDS: Record<string, string> = {
  'connected-apps': 'second',
  'relay-tokens': '{reports}',
  'service-accounts': '{account}',
  webhooks: '{webhook}',
  'admin-tokens': '{terraform}',
  users: '{uma}',
};

/** The pages that show one form or several, by the path of an existing record. */
const PAGES = ROUTE_TABLE.flatMap(([method, pattern]) => {
  if (method !== 'GET' || !/^\/admin\/(?!api\/)/.test(pattern)) return [];
  const [, , list = ''] = pattern.split('/');
  const path = pattern.replace(':id', RECORDS[list] ?? ':id');
  return path.includes(':') ? [] : [path];
});

/** Says what the form does, or which records it is about. */
const KEPT = new Set(['do', 'id', 'back', 'q', 'search']);
const SECOND_STEP = { name: 'Nonsense', issuer: 'http://127.0.0.1:1', id: 'nonsense' };

/** Returns the names of the fields in which an administrator types or chooses something. */
const fieldsOf = (page: Page, { names }: Form) =>
  [...new Set(names)].filter((name) => !KEPT.has(name) && !page.body.includes(`<input type="hidden" name="${name}"`));

/** Sends the form with a text that no field accepts, and returns the page with its faults. */
async function sendNonsense(page: Page, form: Form, except: readonly string[] = []): Promise<Page> {
  const names = fieldsOf(page, form).filter((name) => !except.includes(name));
  const body = new URLSearchParams(form.fields.filter(([name]) => !names.includes(name)));
  for (const name of names) body.append(name, name === 'name' ? ' ' : '\u2620 -1');
  const save = form.buttons.find(({ name, value }) => name === 'do' && /save|read_provider/.test(value));
  if (save) body.set('do', save.value);
  return filled.agent.request(new URL(form.action, page.url).href, { method: 'POST', body });
}

/** Expects the faults in the order of their fields, the focus on the first, and returns how many there are. */
function expectOrder({ body, url }: Page): number {
  const summary = /role="alert".*?<\/ul>/s.exec(body)?.[0] ?? '';
  const listed = [...summary.matchAll(/<a href="#([^"]+)">/g)].map(([, field = '']) => field);
  const places = listed.map((field) => body.indexOf(` id="${field}"`));
  expect(places, `${url} has all of ${listed}`).not.toContain(-1);
  expect(places, `${url} lists ${listed}`).toEqual(places.toSorted((left, right) => left - right));
  const focused = [...body.matchAll(/<[a-z]+\b[^>]*\sautofocus\b[^>]*>/g)].map(([tag]) => tag);
  if (listed.length > 0) expect(focused, url).toEqual([expect.stringContaining(` id="${listed[0]}"`)]);
  return listed.length;
}

const pagesWithFaults = new Set<string>();
test.each(PAGES)('%s', async (path) => {
  const page = await filled.agent.get(filled.site.url + filled.pathOf(path));
  for (const form of page.forms.filter((each) => each.method === 'POST' && fieldsOf(page, each).length > 0)) {
    if (expectOrder(await sendNonsense(page, form)) > 0) pagesWithFaults.add(path);
  }
});

test('are more than a few pages', () => expect([...pagesWithFaults].length).toBeGreaterThan(8));

test('the second step of registering an app', async () => {
  const first = await filled.agent.get(`${filled.site.url}/admin/register-app`);
  const unread = await filled.agent.submit(first, SECOND_STEP, { button: 'Continue' });
  const second = await filled.agent.submit(unread, {}, { button: 'Enter the endpoints by hand' });
  const form = second.forms.find(({ names }) => names.includes('clientId'));
  expect(expectOrder(await sendNonsense(second, form as Form))).toBeGreaterThan(2);
  // Their faults are told before those of the registration.
  const readFirst = ['moreScopes', 'parameters', 'tokenParameters'];
  expect(expectOrder(await sendNonsense(second, form as Form, readFirst))).toBeGreaterThan(5);
});
