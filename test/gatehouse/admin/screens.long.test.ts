/** The administration on screens of any width, by keyboard, in forms, in forced colours and on paper, in a real browser. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useBrowser } from '../../support/browser.ts';
import { CLIENT_SECRET, sandboxApp } from '../../support/gatehouse.ts';
import { expectFitsWindow } from '../../support/journey.ts';
import { type FilledSite, startFilledSite } from './filled-site.ts';

const openPage = useBrowser();
let filled: FilledSite;
beforeAll(async () => {
  filled = await startFilledSite();
});
afterAll(() => filled?.close());

const LISTS = [
  ...['users', 'sessions', 'connected-apps', 'connections', 'connect-links', 'relay-tokens', 'service-accounts'],
  ...['webhooks', 'sign-ins', 'audit', 'admin-tokens'],
];
const WIDTHS = [320, 360, 600, 767, 768, 900, 959, 960, 1024, 1100, 1199, 1200, 1440, 2560];

/** Opens a page with the session of the administrator: only the clock of Gatehouse is set, so a browser cannot sign in. */
async function openAdministration(ignoredErrors?: RegExp) {
  const { agent, site } = filled;
  const page = await openPage({}, ignoredErrors);
  const cookies = agent.cookies
    .header(site.url)
    .split('; ')
    .map((pair) => {
      const at = pair.indexOf('=');
      return { name: pair.slice(0, at), value: pair.slice(at + 1), url: site.url };
    });
  await page.context().addCookies(cookies);
  return page;
}

/** Returns the texts of first cells and states that are cut off, and the headings of visible columns under 60 px. */
const PROBLEMS = `(() => {
  const isCut = ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1;
  const names = [...document.querySelectorAll('.list tbody th')].filter(isCut).map(({ textContent }) => textContent.trim());
  const narrow = [...document.querySelectorAll('.list thead th')]
    .filter((th) => th.offsetWidth > 0 && th.offsetWidth < 60 && !th.matches('.list-check, .list-menu'))
    .map(({ textContent }) => textContent);
  const isTooNarrow = (state) => {
    const text = document.createRange();
    text.selectNodeContents(state);
    const end = state.getBoundingClientRect().right - parseFloat(getComputedStyle(state).paddingRight);
    return text.getBoundingClientRect().right > end + 1;
  };
  const states = [...document.querySelectorAll('.list td .status')].filter(isTooNarrow).map(({ textContent }) => textContent);
  return [...names, ...states, ...narrow];
})()`;

describe('lists', () => {
  test('at every width from 320 to 2,560 px no name or state is cut off, and no column is too narrow to read', async () => {
    const page = await openAdministration();
    for (const list of LISTS) {
      await page.goto(`${filled.site.url}/admin/${list}`);
      // Names longer than a line are cut off, and the URL of a webhook may be one.
      if (list === 'webhooks')
        await page.evaluate(`document.querySelector('.list tbody th bdi').textContent = 'billing'`);
      // The longest state of an app.
      if (list === 'connected-apps')
        await page.evaluate(`(() => {
          const state = document.querySelector('.list td .status');
          state.className = 'status status-notice';
          state.lastChild.textContent = 'Secret expires soon';
        })()`);
      expect(await page.locator('.list tbody tr').count(), list).toBeGreaterThan(0);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 800 });
        expect({ list, width, problems: await page.evaluate(PROBLEMS) }).toEqual({ list, width, problems: [] });
        await expectFitsWindow(page);
      }
    }
  });

  test('a click anywhere in a row opens what its name names, and buttons of the row keep their effect', async () => {
    const page = await openAdministration();
    await page.setViewportSize({ width: 1024, height: 800 });
    await page.goto(`${filled.site.url}/admin/users`);
    const row = page.locator('.list tbody tr').filter({ hasText: 'user@example.test' });
    await row.locator('summary').click();
    expect(await row.locator('.menu').getAttribute('open')).not.toBeNull();
    await page.keyboard.press('Escape');
    const { x, y, width, height } = (await row.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    const [middle, centre] = [x + width * 0.55, y + height / 2];
    const tab = page.context().waitForEvent('page');
    await page.keyboard.down('Control');
    await page.mouse.click(middle, centre);
    await page.keyboard.up('Control');
    await (await tab).waitForURL('**/admin/users/*');
    expect(page.url()).toMatch(/\/admin\/users$/);
    await page.mouse.click(middle, centre);
    await page.waitForURL('**/admin/users/*');
    expect(await page.locator('h1').textContent()).toContain('Uma');
  });

  // Safari takes no row for the containing block of what is positioned in it.
  test('no link of a list is larger than its row, and text in a row can be selected', async () => {
    const page = await openAdministration();
    await page.setViewportSize({ width: 1280, height: 800 });
    for (const list of LISTS) {
      await page.goto(`${filled.site.url}/admin/${list}`);
      const positioned = await page.evaluate(`[...document.querySelectorAll('.list th > a')].flatMap((link) =>
        ['', '::before', '::after'].filter((part) => getComputedStyle(link, part).position === 'absolute'))`);
      expect([list, positioned]).toEqual([list, []]);
    }
    await page.goto(`${filled.site.url}/admin/users`);
    const text = page.locator('.list tbody tr .list-below').filter({ hasText: 'user@example.test' });
    const { x, y, width, height } = (await text.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    await page.mouse.move(x + 1, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + Math.min(width, 100) - 1, y + height / 2, { steps: 5 });
    await page.mouse.up();
    expect(await page.evaluate('getSelection().toString().trim().length')).toBeGreaterThan(5);
    expect(page.url()).toMatch(/\/admin\/users$/);
  });
});

test('on every page of the administration the first Tab goes to the skip link', async () => {
  const page = await openAdministration();
  for (const width of [360, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    for (const path of [
      '',
      ...LISTS.map((list) => `/${list}`),
      '/connected-apps/platform',
      '/policy',
      '/keys',
      '/bin',
    ]) {
      await page.goto(`${filled.site.url}/admin${path}`);
      await page.keyboard.press('Tab');
      const focused = await page.evaluate('document.activeElement.textContent');
      expect([path, focused]).toEqual([path, 'Skip to the content']);
    }
  }
});

test('forced colours show which menu item, tab and link is current', async () => {
  const page = await openAdministration();
  await page.emulateMedia({ forcedColors: 'active' });
  for (const path of ['/admin/connections', '/admin/sessions', '/connections']) {
    await page.goto(`${filled.site.url}${path}`);
    const colours = (await page.evaluate(`[...document.querySelectorAll('.site-nav, .tab-list')].map((nav) => {
      const backgroundOf = (link) => getComputedStyle(link).backgroundColor;
      const links = [...nav.querySelectorAll('a')];
      const current = links.find((link) => link.hasAttribute('aria-current'));
      const other = links.find((link) => !link.hasAttribute('aria-current'));
      return [backgroundOf(current), backgroundOf(other)];
    })`)) as [string, string][];
    expect(colours.length, path).toBeGreaterThan(0);
    for (const [current, other] of colours) expect(current, path).not.toBe(other);
  }
});

test('a list and a sign-in record are printed black on white, whole, and without what only a screen can use', async () => {
  const page = await openAdministration();
  await page.setViewportSize({ width: 718, height: 1000 });
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  for (const path of ['/audit?event=sign_in.succeeded', filled.pathOf('/sign-ins/{signIn}'), '/connections']) {
    await page.goto(`${filled.site.url}/admin${path}`);
    const visible = (selector: string) =>
      page.evaluate(
        `[...document.querySelectorAll('${selector}')].filter((e) => e.checkVisibility() && e.offsetWidth > 0).length`,
      );
    expect(await visible('header, nav, button, .button, footer, .list-menu, .list-check, .skip-link'), path).toBe(0);
    expect(await page.evaluate(`getComputedStyle(document.querySelector('h1')).color`), path).toBe('rgb(23, 35, 43)');
    expect(
      await page.evaluate(
        `[...document.querySelectorAll('.list :is(th, td, .cut)')].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.checkVisibility() && getComputedStyle(e).overflow === 'hidden').length`,
      ),
    ).toBe(0);
    await expectFitsWindow(page);
  }
  await page.goto(`${filled.site.url}/admin/audit?event=sign_in.succeeded`);
  expect(await page.locator('#filter-event').isVisible()).toBe(true);
  expect(await page.locator('#filter-from').isVisible()).toBe(false);
});

describe('forms', () => {
  const FORMS = [
    ...['register-app', 'relay-tokens/new', 'service-accounts/new', 'webhooks/new', 'admin-tokens/new', 'bin', 'keys'],
    ...[
      'connected-apps/second/settings',
      'relay-tokens/{nightly}/edit',
      'service-accounts/{account}/replace',
      'webhooks/{webhook}',
    ],
    ...['users/{uma}', 'policy', 'connections', 'audit'],
  ];

  test('Enter in the name of an app saves it, though another button comes first', async () => {
    const page = await openAdministration();
    await page.goto(`${filled.site.url}/admin/connected-apps/second/settings`);
    await page.locator('#name').fill('Renamed app');
    await page.locator('#name').press('Enter');
    await page.getByRole('heading', { name: 'Renamed app', level: 1 }).waitFor();
    const { json } = await filled.api.call('GET', '/connected-apps/second');
    expect(json.name).toBe('Renamed app');
  });

  test('the Enter key presses the main button of every form that has several', async () => {
    const page = await openAdministration();
    let several = 0;
    for (const path of FORMS) {
      await page.goto(`${filled.site.url}/admin/${filled.pathOf(path)}`);
      const forms = (await page.evaluate(`[...document.forms].map((form) => {
        const buttons = [...form.elements].filter(({ type }) => type === 'submit');
        const [first] = buttons;
        const main = buttons.find((button) => !button.matches('.secondary, .button-quiet, .visually-hidden'));
        return { path: ${JSON.stringify(path)}, count: buttons.length, first: first?.value, main: main?.value };
      })`)) as { count: number; first?: string; main?: string }[];
      for (const form of forms.filter(({ count }) => count > 1)) {
        several += 1;
        expect(form).toMatchObject({ first: form.main });
      }
    }
    expect(several).toBeGreaterThan(0);
  });

  test('no form asks for a secret of a program as for a password, and the wizard begins in its first field', async () => {
    const page = await openAdministration();
    for (const path of FORMS) {
      await page.goto(`${filled.site.url}/admin/${filled.pathOf(path)}`);
      expect([path, await page.locator('input[type=password]').count()]).toEqual([path, 0]);
    }
    await page.goto(`${filled.site.url}/admin/connected-apps/second/settings`);
    const security = "getComputedStyle(document.querySelector('#clientSecret')).webkitTextSecurity";
    expect(await page.evaluate(security)).toBe('disc');
    await page.goto(`${filled.site.url}/admin/register-app`);
    await page.locator('[aria-label="Search providers"]:focus, [placeholder="Search providers"]:focus').waitFor();
  });

  test('a form counts its unsaved changes, and the browser asks before they are lost', async () => {
    const page = await openAdministration();
    await page.goto(`${filled.site.url}/admin/connected-apps/second/settings`);
    const name = await page.locator('#name').inputValue();
    const save = page.getByRole('button', { name: 'Save' });
    await page.getByText('No unsaved changes').waitFor();
    await page.locator('#name').fill('Other name');
    await page.locator('#clientId').fill('other-client');
    await page.getByText('2 unsaved changes').waitFor();
    const { y = Number.NaN, height = 0 } = (await save.boundingBox()) ?? {};
    expect(y + height).toBeLessThan(page.viewportSize()?.height ?? 0);
    const asked: string[] = [];
    page.on('dialog', (dialog) => {
      asked.push(dialog.type());
      void dialog.dismiss();
    });
    await page.getByRole('link', { name: 'Users' }).first().click();
    await expect.poll(() => asked).toEqual(['beforeunload']);
    expect(await page.locator('#name').inputValue()).toBe('Other name');
    await page.locator('#name').fill(name);
    await page.getByText('1 unsaved change').waitFor();
    await page.getByRole('link', { name: 'Discard' }).click();
    await page.locator('#clientId[value="test-second"]').waitFor();
    expect(await page.locator('#clientId').inputValue()).toBe('test-second');
    await page.getByText('No unsaved changes').waitFor();
    expect(asked).toHaveLength(1);
  });

  test('the bar of unsaved changes does not hide the field in which the user types', async () => {
    const page = await openAdministration();
    await page.setViewportSize({ width: 360, height: 740 });
    await page.goto(`${filled.site.url}/admin/connected-apps/second/settings`);
    for (const name of ['#name', '#clientId', '#apiBaseUrl']) {
      await page.reload();
      await page.evaluate(
        `scrollTo(0, document.querySelector('${name}').getBoundingClientRect().bottom - innerHeight + 4)`,
      );
      await page.locator(name).fill('x');
      await page.getByText('1 unsaved change').waitFor();
      const [field, bar] = await Promise.all([name, '.form-end'].map((part) => page.locator(part).boundingBox()));
      expect([name, (field?.y ?? 0) + (field?.height ?? 0) <= (bar?.y ?? 0)]).toEqual([name, true]);
      await page.getByRole('link', { name: 'Discard' }).click();
      await page.waitForLoadState('load');
    }
  });

  test('a form that was refused can be saved again, or discarded, though nothing has changed since', async () => {
    const page = await openAdministration(/status of 400/);
    await page.goto(`${filled.site.url}/admin/connected-apps/second/settings`);
    await page.locator('#issuer').fill('');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('#issuer:focus').waitFor();
    await page.getByText('Unsaved changes', { exact: true }).waitFor();
    expect(await page.getByRole('button', { name: 'Save' }).isVisible()).toBe(true);
    await page.getByRole('link', { name: 'Discard' }).click();
    await page.locator('#issuer[value^="http"]').waitFor();
    await page.getByText('No unsaved changes').waitFor();
  });

  test('callback URLs and scopes are on the first screen of an app, and begin its settings', async () => {
    const page = await openAdministration();
    for (const [width, height] of [
      [1440, 900],
      [360, 740],
    ] as const) {
      await page.setViewportSize({ width, height });
      for (const [path, selectors] of [
        ['second', ['#callback-title', '[aria-labelledby="callback-title"] li', '#scopes-title']],
        ['second/settings', ['#callbackUrl-0', ...(width === 1440 ? ['#scopes-title'] : [])]],
      ] as const) {
        await page.goto(`${filled.site.url}/admin/connected-apps/${path}`);
        for (const selector of selectors) {
          const box = await page.locator(selector).first().boundingBox();
          expect([width, selector, (box?.y ?? height) + (box?.height ?? 0) < height]).toEqual([width, selector, true]);
        }
      }
      await page.getByText('More: endpoints').click();
      const fields =
        (await page.evaluate(`[...document.querySelectorAll('.form-rows .field')].filter(({ offsetWidth }) => offsetWidth > 0).map((field) => {
        const [label, input] = ['label, legend', 'input, select, textarea'].map((part) => field.querySelector(part).getBoundingClientRect());
        return label.right <= input.left && Math.abs(label.top - input.top) < 12;
      })`)) as boolean[];
      expect(fields.length).toBeGreaterThan(20);
      expect([width, ...new Set(fields)]).toEqual([width, width === 1440]);
      await expectFitsWindow(page);
    }
  });

  test('a form that saves nothing has no unsaved changes', async () => {
    const { api, site } = filled;
    const routes = [{ name: 'thread', method: 'GET', path: '/1/threads/{id}' }];
    const callbackUrls = [`${site.url}/oauth/callback/tried`];
    const app = sandboxApp(site, 'second', { id: 'tried', callbackUrls, clientSecret: CLIENT_SECRET, routes });
    expect((await api.call('POST', '/connected-apps', app)).status).toBe(201);
    const page = await openAdministration(/status of 400/);
    page.setDefaultTimeout(20_000);
    await page.goto(`${site.url}/admin/connected-apps/tried/routes/thread`);
    await page.locator('#parameter-0').fill('a/b');
    expect(await page.getByText('unsaved change').count()).toBe(0);
    await page.getByRole('button', { name: 'Open the response' }).click();
    await page.getByText('No route has such a path').first().waitFor();
    await page.locator('#parameter-0').fill('a');
    await page.getByRole('link', { name: 'Overview' }).first().click();
    await page.waitForURL(`${site.url}/admin`);
  });

  test('what was typed is there again after a session that had ended, without secrets, and only once', async () => {
    const page = await openAdministration(/status of 40[13]/);
    const path = `${filled.site.url}/admin/connected-apps/second/settings`;
    await page.goto(path);
    await page.locator('#name').fill('Typed before the end');
    await page.locator('#clientSecret').fill('typed-secret');
    const cookies = await page.context().cookies();
    await page.context().clearCookies();
    await page.locator('#name').press('Enter');
    await page.locator('body:not(:has(#name))').waitFor();
    const kept = await page.evaluate('JSON.stringify({ ...sessionStorage })');
    expect(kept).toContain('Typed before the end');
    expect(kept).not.toContain('typed-secret');
    await page.context().addCookies(cookies);
    await page.goto(path);
    await page.getByText('Sent, but not confirmed as saved. 1 unsaved change').waitFor();
    expect(await page.locator('#name').inputValue()).toBe('Typed before the end');
    expect(await page.locator('#clientSecret').inputValue()).toBe('');
    await page.locator('#name').press('Enter');
    await page.getByRole('heading', { name: 'Typed before the end', level: 1 }).waitFor();
    await page.goto(path);
    await page.getByText('No unsaved changes').waitFor();
  });
});
