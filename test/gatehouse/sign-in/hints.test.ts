/** Hints in links and forms reach only the provider, and "Use another account" sends one. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { attempt, begin, csrfTokenOf, type HostileSite, startHostileSite, textOf } from './attempt.ts';

const HINTS = { login_hint: 'private.hint+1@example.test', prompt: 'login', ui_locales: 'de-CH en' };
const QUERY = new URLSearchParams(HINTS).toString();

let site: HostileSite;
beforeAll(async () => {
  site = await startHostileSite({
    env: { ADMIN_ACR: 'mfa' },
    apps: (provider, url) => [
      provider.app(url, { parameters: { ui_locales: 'en', login_hint: 'of-the-app', audience: 'api' } }),
      provider.app(url, { id: 'files', scopes: ['read', 'write'], signIn: undefined, prompt: ['login', 'consent'] }),
      provider.app(url, { id: 'bare', scopes: ['read'], signIn: undefined }),
      provider.app(url, { id: 'plain', scopes: ['openid'], signIn: undefined, prompt: 'off' }),
    ],
  });
});
afterEach(() => site.provider.reset());
afterAll(() => site.close());

const connect = async (agent: UserAgent, app: string, fields: Record<string, string> | [string, string][]) => {
  const body = new URLSearchParams([['_csrf', await csrfTokenOf(site, agent)], ...new URLSearchParams(fields)]);
  const page = await agent.request(`${site.url}/connections/${app}`, { method: 'POST', follow: false, body });
  const location = page.headers.get('location');
  const parameters = location === null ? undefined : new URL(location).searchParams;
  return { page, parameters };
};

describe('R110 hints', () => {
  test('of a sign-in replace those of the app, and keep a required consent', async () => {
    const withHints = await begin(site, { path: `/sign-in?${QUERY}` });
    expect(Object.fromEntries(withHints.parameters)).toMatchObject({
      ...HINTS,
      prompt: 'login consent',
      audience: 'api',
    });
    const withoutHints = await begin(site);
    expect(Object.fromEntries(withoutHints.parameters)).toMatchObject({ ui_locales: 'en', login_hint: 'of-the-app' });
  });

  test('of a connection pass from its link through its form', async () => {
    const { agent } = await attempt(site);
    const page = await agent.get(`${site.url}/connections/files?${QUERY}`);
    expect(page.body).not.toContain('Use another account');

    await agent.submit(page, {}, { button: 'Connect' });
    const parameters = new URL(site.provider.hitsOf('authorize').at(-1)?.url ?? '', site.url).searchParams;
    expect(Object.fromEntries(parameters)).toMatchObject({ ...HINTS, prompt: 'login consent' });

    const ofFiles = await connect(agent, 'files', { prompt: 'select_account' });
    expect(ofFiles.parameters?.get('prompt')).toBe('select_account consent');
    const ofPlain = await connect(agent, 'plain', { prompt: 'login' });
    const withoutHint = await connect(agent, 'plain', {});
    expect([ofPlain.parameters?.get('prompt'), withoutHint.parameters?.get('prompt')]).toEqual(['login', null]);
  });

  test('keep the consent without which the stored refresh token would be lost', async () => {
    const { agent } = await attempt(site);
    await agent.submit(await agent.get(`${site.url}/connections/bare`), {}, { button: 'Connect' });

    const sameAccount = await connect(agent, 'bare', {});
    expect(sameAccount.parameters?.get('prompt')).toBe('consent');
    const otherAccount = await connect(agent, 'bare', { prompt: 'select_account' });
    expect(otherAccount.parameters?.get('prompt')).toBe('select_account consent');
  });

  test.each([
    'prompt=none',
    'prompt=login&prompt=login',
    'ui_locales=de_CH',
    'login_hint=a%00b',
    'login_hint=4111111111111111',
  ])('that are not allowed are refused with 400 at every start: %s', async (query) => {
    const { agent } = await attempt(site);
    const requestsBefore = site.provider.hitsOf('authorize').length;

    const pages = [
      await agent.get(`${site.url}/sign-in?${query}`),
      await agent.get(`${site.url}/connections/files?${query}`),
      (await connect(agent, 'files', [...new URLSearchParams(query)])).page,
    ];
    expect(pages.map(({ status }) => status)).toEqual([400, 400, 400]);
    for (const { body } of pages) expect(body).not.toContain('4111111111111111');
    expect(site.provider.hitsOf('authorize')).toHaveLength(requestsBefore);
  });

  test('of a step-up change only the languages', async () => {
    const { parameters } = await begin(site, { path: `/sign-in?step_up=1&prompt=select_account&ui_locales=de` });
    expect(Object.fromEntries(parameters)).toMatchObject({ acr_values: 'mfa', max_age: '900', ui_locales: 'de' });
    expect(parameters.get('prompt')).toBe('consent');
  });

  test('are not logged or recorded', async () => {
    const { agent } = await attempt(site, { path: `/sign-in?${QUERY}` });
    await connect(agent, 'files', HINTS);
    await agent.get(`${site.url}/sign-in?login_hint=private.hint${'x'.repeat(255)}`);
    site.provider.setModes('token-status-400');
    await attempt(site, { path: `/sign-in?${QUERY}` });

    expect(site.logs().join('')).not.toContain('private.hint');
    const store = await createSqliteStore({ directory: site.dataDirectory });
    for await (const records of store.walk()) expect(JSON.stringify(records)).not.toContain('private.hint');
    await store.close();
  });
});

describe('select_account', () => {
  test.each([
    [['none', 'login', 'consent'], 'login consent'],
    [['login', 'select_account'], 'select_account consent'],
    ['login', 'select_account consent'],
  ])('is sent to a provider that lists %j as %j', async (supported, prompt) => {
    const siteOfProvider = await startHostileSite();
    siteOfProvider.provider.setModes({ metadata: (metadata) => ({ ...metadata, prompt_values_supported: supported }) });
    const { parameters } = await begin(siteOfProvider, { path: '/sign-in?prompt=select_account' });
    expect(parameters.get('prompt')).toBe(prompt);
    await siteOfProvider.close();
  });

  test('is a link next to each way to sign in', async () => {
    const page = await createUserAgent().get(`${site.url}/`);
    const [, link = ''] = /href="([^"]*)">Use another account/.exec(page.body) ?? [];
    expect(link).toBe(`${site.url}/sign-in?app=elsewhere&amp;prompt=select_account`);
  });

  test('is offered for every sign-in app to a user who did not consent', async () => {
    site.provider.setModes('callback-access-denied');
    const { page } = await attempt(site);
    expect(page.status).toBe(403);
    expect(page.body).toContain(`${site.url}/sign-in?prompt=select_account">Use another account`);
  });

  test('is offered to an account that may not sign in, and to one other than the signed-in one', async () => {
    const siteForStaff = await startHostileSite({ app: { signIn: { allow: { claim: 'groups', values: ['staff'] } } } });
    const link = `${siteForStaff.url}/sign-in?app=elsewhere&amp;prompt=select_account">Use another account`;
    siteForStaff.provider.signInAs({ sub: 'guest', groups: ['guests'] });
    const { page: refused } = await attempt(siteForStaff);
    expect([refused.status, refused.body]).toEqual([403, expect.stringContaining(link)]);

    siteForStaff.provider.signInAs({ sub: 'ann', groups: ['staff'] });
    const { agent } = await attempt(siteForStaff);
    siteForStaff.provider.signInAs({ sub: 'ben', groups: ['staff'] });
    const { page: other } = await attempt(siteForStaff, { agent });
    expect(textOf(other.body)).toContain('Another user is signed in');
    expect(other.body).toContain(link);
    await siteForStaff.close();
  });
});

describe('a retry after a denied consent', () => {
  const BOARD = '/session?board=1';
  const linkOf = ({ body }: Page, words: string) =>
    new RegExp(`href="([^"]*)"[^>]*>${words}`).exec(body)?.[1]?.replaceAll('&amp;', '&') ?? '';

  test('of a sign-in reaches the return path', async () => {
    site.provider.setModes('callback-access-denied');
    const { agent, page } = await attempt(site, { path: `/sign-in?return_to=${encodeURIComponent(BOARD)}` });
    expect(page.status).toBe(403);
    site.provider.reset();
    const useAnotherAccount = linkOf(page, 'Use another account');
    const tryAgain = linkOf(page, 'Try again');
    for (const link of [useAnotherAccount, tryAgain]) expect((await agent.get(link)).url, link).toBe(site.url + BOARD);
  });

  test('of a connection reaches the return path', async () => {
    const { agent } = await attempt(site);
    const path = `${site.url}/connections/plain?return_to=${encodeURIComponent(BOARD)}`;
    site.provider.setModes('callback-access-denied');
    const denied = await agent.submit(await agent.get(path), { return_to: BOARD });
    expect(denied.status).toBe(403);
    site.provider.reset();
    const form = await agent.get(linkOf(denied, 'Try again'));
    expect(form.url).toBe(path);
    expect((await agent.submit(form, { return_to: BOARD })).url).toBe(site.url + BOARD);
  });
});
