/** R140: no form ends with a page that is the response to its POST. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sharedAssets } from '../../src/shared/pages/assets.ts';
import type { UserAgent } from '../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { ADMIN_ROUTES, BROWSER_CHANGES, type ListedRoute } from '../support/routes.ts';

/** An upload has another type of body; its form has a test of its own. */
const UPLOAD = '/admin/bin/import';
const ENDS_SESSION = ['/sign-out', '/sign-out/everywhere', '/account/delete'];
const FORMS: ListedRoute[] = [
  ...BROWSER_CHANGES,
  ...ADMIN_ROUTES.filter(({ pattern }) => !pattern.startsWith('/admin/api/') && pattern !== UPLOAD),
].filter(({ method }) => method === 'POST');

let site: TestSite;
let agent: UserAgent;
let csrf: string;

async function signInAgain(): Promise<void> {
  ({ agent } = await signIn(site, 'admin@example.test'));
  const { json } = await getJson(agent, `${site.url}/session`);
  csrf = String(json.csrfToken);
}

beforeAll(async () => {
  site = await startSite();
  await signInAgain();
});
afterAll(() => site?.close());

const post = (path: string, fields: Record<string, string>) =>
  agent.request(site.url + path, {
    method: 'POST',
    body: new URLSearchParams({ ...fields, _csrf: csrf }),
    headers: { origin: site.url },
    follow: false,
  });

describe('R140 each form ends with a redirect, or with an error page', () => {
  test.each(FORMS)('$pattern', async ({ pattern, path }) => {
    // Each field is refused by some form, and each button of a form with several is pressed.
    for (const fields of [
      {},
      { name: '', do: 'save', version: 'x', bin: '12', typed: 'no' },
      ...['read_provider', 'use_issuer', 'by_hand', 'back', 'register_there', 'enable', 'add_callback', 'unknown'].map(
        (button) => ({ do: button, version: '1' }),
      ),
    ]) {
      const { status, body, headers } = await post(path, fields);
      const isErrorPage = status >= 400 && body.includes('class="narrow error-page"');
      expect([fields, status === 303 || isErrorPage, body]).toEqual([fields, true, expect.anything()]);
      if (status === 303) expect(headers.get('location')).toBeTruthy();
      if (ENDS_SESSION.includes(pattern)) await signInAgain();
    }
  });
});

describe('R140 a form with faults', () => {
  const FAULTY = { name: 'Reports <&>', expiry: 'x', scope: 'read' };
  const NEW = '/admin/admin-tokens/new';
  const refusedUrl = async (fields: Record<string, string> = FAULTY): Promise<string> => {
    const { status, headers } = await post('/admin/admin-tokens', fields);
    expect(status).toBe(303);
    return new URL(headers.get('location') ?? '', site.url).href;
  };

  test('is shown at an address, each time with its faults, and without what was entered in the address', async () => {
    const url = await refusedUrl();
    expect(new URL(url).pathname).toBe(NEW);
    expect(url).not.toContain('Reports');
    for (const _time of ['first', 'reload']) {
      const page = await agent.get(url);
      expect([page.status, page.body]).toEqual([400, expect.stringMatching(/<title>Error: .*id="expiry-fault"/s)]);
      expect(page.body).toContain('value="Reports &lt;&amp;&gt;"');
    }
    expect((await agent.get(`${site.url}${NEW}`)).body).not.toContain('Reports');
  });

  test('is shown to no other session, on no other page, and not under another id', async () => {
    const url = await refusedUrl();
    const { search } = new URL(url);
    const { agent: other } = await signIn(site, 'admin@example.test');
    expect((await other.get(url)).body).not.toContain('Reports');
    for (const path of ['/admin/webhooks/new', '/admin/relay-tokens/new', '/admin/register-app', '/admin', '/'])
      expect([path, (await agent.get(site.url + path + search)).status]).toEqual([path, 200]);
    expect((await agent.get(`${url}x`)).body).not.toContain('Reports');
  });

  test('leads nowhere else, whatever the path of the form holds', async () => {
    for (const id of ['..%2F..%2F..%2F%2Fexample.test%2F', '%2F%2Fexample.test', '%3Fform=x', '%5C%5Cexample.test']) {
      const { status, headers } = await post(`/admin/relay-tokens/${id}`, { name: '' });
      const { origin, pathname } = new URL(headers.get('location') ?? '', site.url);
      expect([id, status, origin, pathname.startsWith('/admin/relay-tokens/')]).toEqual([id, 303, site.url, true]);
    }
  });

  test('keeps no secret: it has to be entered again', async () => {
    const secret = 'a-platform-token-that-was-typed';
    const { headers } = await post('/admin/service-accounts', { name: '', app: 'platform', apiToken: secret });
    const page = await agent.get(new URL(headers.get('location') ?? '', site.url).href);
    expect([page.status, page.body.includes(secret)]).toEqual([400, false]);
    expect(page.body).toContain(sharedAssets().path);
  });

  test('that asks a question keeps the items and the page to return to', async () => {
    const path = '/admin/connected-apps/platform/disconnect-everyone';
    const back = '/admin/connections?app=platform';
    const { headers } = await post(path, { typed: 'no', id: 'one', back });
    const url = new URL(headers.get('location') ?? '', site.url);
    expect([url.pathname, url.searchParams.getAll('id'), url.searchParams.get('back')]).toEqual([path, ['one'], back]);
    const page = await agent.get(url.href);
    expect([page.status, page.body]).toEqual([400, expect.stringContaining('to confirm.')]);
    expect(page.body).toContain(`href="${back}"`);
  });
});
