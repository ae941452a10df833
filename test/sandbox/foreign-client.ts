/** A client of the sandbox other than Gatehouse: openid-client, with a user agent at its callback. */
import * as oidc from 'openid-client';
import type { SandboxClient } from '../../src/sandbox/clients.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.ts';
import { createUserAgent, type Page, type UserAgent } from '../support/browserless.ts';

export const CALLBACK_URL = 'http://127.0.0.1:9/callback';
export const SIGNED_OUT_URL = 'http://127.0.0.1:9/signed-out';
export const PASSWORD = 'gatehouse-demo';
export const FULL_SCOPE = 'openid profile email offline_access platform_read_only';

export const CLIENT: SandboxClient & { clientSecret: string } = {
  clientId: 'foreign-client',
  clientSecret: 'a secret & its : marks, 32 characters or more',
  name: 'Foreign client',
  redirectUris: [CALLBACK_URL],
  postLogoutRedirectUris: [SIGNED_OUT_URL],
};

/** A browser that stops at redirects to the client, where nothing listens. Tests need only the URL. */
export function createBrowser(): UserAgent {
  return createUserAgent({ stopAt: (url) => url.startsWith('http://127.0.0.1:9/') });
}

export async function startForeignClient(options: Partial<SandboxOptions> = {}) {
  const failures: unknown[] = [];
  const sandbox = await startSandbox({
    clients: [CLIENT],
    binService: (_req, res) => res.end('{}'),
    report: (error) => failures.push(error),
    ...options,
  });
  const discover = () =>
    oidc.discovery(
      new URL(sandbox.issuer),
      CLIENT.clientId,
      { id_token_signed_response_alg: options.clients?.[0]?.idTokenAlgorithm ?? 'RS256' },
      oidc.ClientSecretBasic(CLIENT.clientSecret),
      { execute: [oidc.allowInsecureRequests, oidc.enableNonRepudiationChecks] },
    );
  const config = await discover();

  const begin = (scope = FULL_SCOPE, extra: Record<string, string> = {}, appConfig = config) =>
    beginAs(appConfig, scope, extra);

  async function signIn({
    browser = createBrowser(),
    login = 'user@example.test',
    scope = FULL_SCOPE,
    appConfig = config,
  } = {}) {
    const { url, finish } = await begin(scope, {}, appConfig);
    let page = await browser.get(url);
    if (page.body.includes('name="login"')) page = await browser.submit(page, { login, password: PASSWORD });
    return finish(await browser.submit(page, {}, { button: 'Allow' }));
  }

  const thread = (token?: string, init: RequestInit = {}) =>
    fetch(`${sandbox.platformUrl}/1/threads/current`, {
      ...init,
      ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }),
    });

  return { sandbox, failures, config, discover, begin, signIn, thread };
}

/** Starts an authorization request of this client. `finish` exchanges the code. */
export async function beginAs(config: oidc.Configuration, scope: string, extra: Record<string, string> = {}) {
  const verifier = oidc.randomPKCECodeVerifier();
  const checks = { pkceCodeVerifier: verifier, expectedState: oidc.randomState(), expectedNonce: oidc.randomNonce() };
  const url = oidc.buildAuthorizationUrl(config, {
    redirect_uri: CALLBACK_URL,
    scope,
    state: checks.expectedState,
    nonce: checks.expectedNonce,
    code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    prompt: 'consent',
    ...extra,
  });
  return { url: url.href, finish: (page: Page) => oidc.authorizationCodeGrant(config, new URL(page.url), checks) };
}

/** Returns a browser in which the administrator is signed in at the console, with password and second factor. */
export async function openConsole({ sandbox }: { sandbox: Sandbox }) {
  const browser = createBrowser();
  const login = 'admin@example.test';
  let page = await browser.get(`${sandbox.issuer}/console`);
  page = await browser.submit(page, { login, password: PASSWORD });
  await browser.submit(page, { code: sandbox.secondFactorCode(login) ?? '' });
  const open = (path: string) => browser.get(`${sandbox.issuer}/console${path}`);
  return { browser, open };
}

export type ForeignClient = Awaited<ReturnType<typeof startForeignClient>>;

/** The names of the script files of a page. Each page has `back.js` only, and works without it. */
export function scriptsOf({ body }: Pick<Page, 'body'>): string[] {
  return [...body.matchAll(/<script\b[^>]*>/g)].map(([tag]) => /src="\/assets\/[a-p]+\/([^"]+)"/.exec(tag)?.[1] ?? tag);
}
