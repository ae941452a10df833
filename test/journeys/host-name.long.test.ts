/** A `PUBLIC_URL` whose host is in another script: cookies, callback and forms work in a real browser. */
import { expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { CLIENT_SECRET, sandboxApp, startSite } from '../support/gatehouse.ts';
import { completeProviderSignIn, signOutFromMenu } from '../support/journey.ts';
import { freePort } from '../support/ports.ts';

const openPage = useBrowser();

test.each([
  ['in another script', 'bücher.localhost', 'xn--bcher-kva.localhost'],
  ['in upper case', 'Gate.LOCALHOST', 'gate.localhost'],
  ['with a final dot', 'gate.localhost.', 'gate.localhost'],
])('a user signs in and out where the host is written %s', async (_name, written, ascii) => {
  const port = await freePort();
  const url = `http://${ascii}:${port}`;
  const client = {
    clientId: 'test-platform',
    clientSecret: CLIENT_SECRET,
    name: 'Test',
    redirectUris: [`${url}/oauth/callback/platform`],
    postLogoutRedirectUris: [`${url}/`],
    settings: { requirePkce: true },
  };
  const site = await startSite({
    env: { PORT: String(port), PUBLIC_URL: `http://${written}:${port}` },
    sandbox: { clients: [client] },
    apps: ({ sandbox }) => [sandboxApp({ url, sandbox }, 'platform')],
  });
  try {
    expect(site.url).toBe(url);
    const page = await openPage();
    await page.goto(`http://${written}:${port}/sign-in`);
    await completeProviderSignIn(page, { url });
    expect(new URL(page.url()).host).toBe(`${ascii}:${port}`);
    // The form has the Origin of the ASCII form.
    await signOutFromMenu(page);
    expect(page.url()).toContain(site.sandbox.issuer);
    await page.goto(url);
    expect(await page.getByRole('link', { name: /^Sign in with/ }).count()).toBe(1);
  } finally {
    await site.close();
  }
});
