/** A sign-in at the hostile provider as a browser makes it, over real HTTP against the shipped app. */
import { expect } from 'vitest';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { getJson, startAlone, type TestGatehouse } from '../../support/gatehouse.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { freePort } from '../../support/ports.ts';

export interface HostileSite extends TestGatehouse {
  provider: HostileProvider;
}

export interface HostileSiteOptions {
  /** Merged into the one app `elsewhere`. */
  app?: Record<string, unknown>;
  apps?: (provider: HostileProvider, url: string) => Record<string, unknown>[];
  env?: Record<string, string>;
  provider?: HostileProvider;
}

/** The shipped Gatehouse pointed at a hostile provider; closing it leaves a provider that was given running. */
export async function startHostileSite(options: HostileSiteOptions = {}): Promise<HostileSite> {
  const provider = options.provider ?? (await startHostileProvider());
  const port = await freePort();
  const url = options.env?.PUBLIC_URL ?? `http://127.0.0.1:${port}`;
  const gatehouse = await startAlone({
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

/** One whole sign-in, however it ends. */
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

/** A start that goes no further: the authorization request as the provider would get it. */
export async function begin(
  site: { url: string },
  { agent = createUserAgent(), path = '/sign-in' }: { agent?: UserAgent; path?: string } = {},
) {
  const page = await agent.get(site.url + path, { follow: false });
  const location = page.headers.get('location') ?? '';
  return { agent, page, location, asked: location === '' ? new URLSearchParams() : new URL(location).searchParams };
}

/** The callback URL that the provider sends this authorization request back to; nothing opens it. */
export async function callbackFor(location: string): Promise<URL> {
  const answer = await fetch(location, { redirect: 'manual' });
  return new URL(answer.headers.get('location') ?? '');
}

/** A page for people that names its cause, and nothing that only we understand. */
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
