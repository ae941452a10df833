/** Sign-out at the identity provider. */
import * as oidc from 'openid-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBrowser, type ForeignClient, SIGNED_OUT_URL, scriptsOf, startForeignClient } from './foreign-client.ts';

let client: ForeignClient;

beforeAll(async () => {
  client = await startForeignClient();
});
afterAll(() => client.sandbox.close());

async function startSignOut() {
  const browser = createBrowser();
  const tokens = await client.signIn({ browser });
  const url = oidc.buildEndSessionUrl(client.config, {
    post_logout_redirect_uri: SIGNED_OUT_URL,
    id_token_hint: tokens.id_token ?? '',
    state: 'the-state',
  });
  return { browser, tokens, url: url.href };
}

const requiresPassword = async (browser: ReturnType<typeof createBrowser>) =>
  (await browser.get((await client.begin()).url)).body.includes('name="login"');

describe('sign-out at the identity provider', () => {
  it('asks, ends the session and returns to the app', async () => {
    const { browser, url } = await startSignOut();
    const question = await browser.get(url);
    expect(question.body).toContain('Uma Okafor');
    expect(scriptsOf(question)).toEqual(['back.js']);

    const back = await browser.submit(question);
    expect(back.url).toBe(`${SIGNED_OUT_URL}?state=the-state`);
    expect(await requiresPassword(browser)).toBe(true);
  });

  it('leaves tokens with offline_access valid', async () => {
    const { browser, tokens, url } = await startSignOut();
    await browser.submit(await browser.get(url), {}, { button: 'Sign out' });
    expect((await client.thread(tokens.access_token)).status).toBe(200);
  });

  it('can be cancelled', async () => {
    const { browser, url } = await startSignOut();
    const back = await browser.submit(await browser.get(url), {}, { button: 'Stay signed in' });
    expect(back.url).toBe(`${SIGNED_OUT_URL}?state=the-state`);
    expect(await requiresPassword(browser)).toBe(false);
  });

  it('returns at once if no user is signed in', async () => {
    const { url } = await startSignOut();
    const back = await createBrowser().get(url);
    expect(back.url).toBe(`${SIGNED_OUT_URL}?state=the-state`);

    const signOutPage = await createBrowser().get(`${client.sandbox.issuer}/sign-out`);
    expect([signOutPage.status, signOutPage.body.includes('You are signed out here')]).toEqual([200, true]);
  });

  it('refuses a URL that is not registered', async () => {
    const { browser, url } = await startSignOut();
    const page = await browser.get(url.replace('signed-out', 'elsewhere'));
    expect(page.status).toBe(400);
    expect(page.body).toContain('post_logout_redirect_uri not registered');
  });
});
