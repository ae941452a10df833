/** Sign-ins at the hostile provider like those of a browser, over HTTP against the shipped app. */
import { expect } from 'vitest';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { getJson, startWithoutSandbox, type TestGatehouse } from '../../support/gatehouse.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { freePort } from '../../support/ports.ts';

export interface HostileSite extends TestGatehouse {
  provider: HostileProvider;
}

export interface HostileSiteOptions {
  /** Merged into the only app, `elsewhere`. */
  app?: Record<string, unknown>;
  apps?: (provider: HostileProvider, url: string) => Record<string, unknown>[];
  env?: Record<string, string>;
  provider?: HostileProvider;
}

/** The shipped Gatehouse with a hostile provider. `close` also closes the provider, unless it was passed. */
export async function startHostileSite(options: HostileSiteOptions = {}): Promise<HostileSite> {
  const provider = options.provider ?? (await startHostileProvider());
  const port = await freePort();
  const url = options.env?.PUBLIC_URL ?? `http://127.0.0.1:${port}`;
  const gatehouse = await startWithoutSandbox({
    port,
    apps: options.apps?.(provider, url) ?? [provider.app(url, options.app)],
    env: { HOSTILE_CLIENT_SECRET: provider.clientSecret, ...options.env },
  });
  return {
    ...gatehouse,
    provider,
    async close() {
      await gatehouse.close();
      if (!options.provider) await provider.close();
    },
  };
}

export interface Attempt {
  agent: UserAgent;
  page: Page;
  signedIn: boolean;
}

/** Signs in, and follows every redirect. The sign-in may succeed or fail. */
export async function attempt(
  site: HostileSite,
  { agent = createUserAgent(), path = '/sign-in' }: { agent?: UserAgent; path?: string } = {},
): Promise<Attempt> {
  const page = await agent.get(site.url + path);
  return { agent, page, signedIn: await isSignedIn(site, agent) };
}

export async function isSignedIn(site: { url: string }, agent: UserAgent): Promise<boolean> {
  const { json } = await getJson(agent, `${site.url}/session`);
  return json.signedIn === true;
}

export async function csrfTokenOf(site: { url: string }, agent: UserAgent): Promise<string> {
  return String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
}

/** Starts a sign-in without following the redirect to the provider. @returns its location and parameters */
export async function begin(
  site: { url: string },
  { agent = createUserAgent(), path = '/sign-in' }: { agent?: UserAgent; path?: string } = {},
) {
  const page = await agent.get(site.url + path, { follow: false });
  const location = page.headers.get('location') ?? '';
  const parameters = location === '' ? new URLSearchParams() : new URL(location).searchParams;
  return { agent, page, location, parameters };
}

/** Sends an authorization request to the provider. @returns the callback URL of its redirect, which is not opened */
export async function callbackFor(location: string): Promise<URL> {
  const response = await fetch(location, { redirect: 'manual' });
  return new URL(response.headers.get('location') ?? '');
}

/** Expects an error page, other than status 500, with this detail. */
export function expectNamedCause(page: Page, detail: string): void {
  expect(page.status).toBeGreaterThanOrEqual(400);
  expect(page.status).not.toBe(500);
  expect(textOf(page.body)).toContain(detail);
  expect(page.headers.get('cache-control')).toContain('no-store');
}

export function textOf(html: string): string {
  return html
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')
    .replaceAll(/\s+/g, ' ');
}

/** The cookies with the browser's secrets, under which its pending requests are stored. */
export const secretCookiesOf = (agent: UserAgent) =>
  agent.cookies.all().filter(({ name }) => name.startsWith('gatehouse-tx-'));
