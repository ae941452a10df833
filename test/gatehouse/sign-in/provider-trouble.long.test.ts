/** Providers that fail during a sign-in: a page names the cause, without a 500, a session or a leaked secret. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { SIGN_IN_FAILURES, type SignInFailure } from '../../../src/gatehouse/sign-in-record/failures.ts';
import { BAD_CALLBACKS, BAD_ID_TOKENS } from '../../support/hostile-modes.ts';
import { type HostileProvider, type ModeName, startHostileProvider } from '../../support/hostile-provider.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { attempt, expectNamedCause, type HostileSite, startHostileSite } from './attempt.ts';

let provider: HostileProvider;
let site: HostileSite;
const unhandledRejections: unknown[] = [];
const recordRejection = (reason: unknown) => void unhandledRejections.push(reason);

beforeAll(async () => {
  process.on('unhandledRejection', recordRejection);
  provider = await startHostileProvider();
  site = await startHostileSite({ provider });
  expect((await attempt(site)).signedIn).toBe(true);
  provider.reset();
});
afterEach(() => {
  provider.reset();
  expect(unhandledRejections).toEqual([]);
});
afterAll(async () => {
  process.off('unhandledRejection', recordRejection);
  await site.close();
  await provider.close();
});

const FAILURES: [ModeName, SignInFailure][] = [
  ['token-invalid-grant', 'code_refused'],
  ['token-status-400', 'code_refused'],
  ['token-status-404', 'code_refused'],
  ['token-invalid-client', 'misconfigured'],
  ['token-status-429', 'provider_limited'],
  ['token-status-500', 'provider_unavailable'],
  ['token-status-503', 'provider_unavailable'],
  ['token-huge', 'provider_unreadable'],
  ['token-gzip-cut-off', 'provider_unreadable'],
  ['token-unknown-encoding', 'provider_unreadable'],
  ['token-drip', 'provider_unavailable'],
  ['token-reset', 'provider_unavailable'],
  ['token-reset-after-headers', 'provider_unavailable'],
  ['token-many-headers', 'provider_unavailable'],
  ['token-html', 'token_response_refused'],
  ['token-truncated', 'token_response_refused'],
  ['token-array', 'token_response_refused'],
  ['token-null', 'token_response_refused'],
  ['token-empty', 'token_response_refused'],
  ['token-refused-with-200', 'code_refused'],
  ['token-wrong-secret-with-200', 'misconfigured'],
  ['token-redirect', 'token_response_refused'],
  ['token-redirect-307', 'token_response_refused'],
  ['userinfo-reset', 'provider_unavailable'],
  ['userinfo-huge', 'provider_unreadable'],
  ['userinfo-status-503', 'provider_unavailable'],
  ['userinfo-redirect', 'token_response_refused'],
  ['userinfo-html', 'token_response_refused'],
];

describe('F10, F11, R25, R28: each failure has a page with its cause', () => {
  test.each(FAILURES)('%s: %s', async (mode, failure) => {
    // Userinfo is called only for a claim that the ID token lacks.
    const modes: ModeName[] = mode.startsWith('userinfo') ? [mode, 'id-token-without-name'] : [mode];
    provider.setModes(...modes);

    const elapsed = startStopwatch();
    const { page, signedIn } = await attempt(site);
    expect(signedIn).toBe(false);
    expectNamedCause(page, SIGN_IN_FAILURES[failure].detail);
    expect(page.body).toMatch(/href="[^"]*\/sign-in\?app=elsewhere">Try again<\/a>/);
    expect(elapsed()).toBeLessThan(16_500);
    expect(provider.trapped).toEqual([]);
  });

  test('and passes on Retry-After from the provider', async () => {
    provider.setModes('token-status-503');
    expect((await attempt(site)).page.headers.get('retry-after')).toBe('9');
  });

  test('that is the one of an unavailable provider if only its keys are unavailable', async () => {
    const freshSite = await startHostileSite({ provider });
    provider.setModes('jwks-status-500');
    const { page, signedIn } = await attempt(freshSite);
    expect(signedIn).toBe(false);
    expectNamedCause(page, SIGN_IN_FAILURES.provider_unavailable.detail);
    await freshSite.close();
  });

  test('R28 and 30 simultaneous responses of 200 MB take less than 64 MiB of memory', async () => {
    provider.setModes('token-huge');
    await attempt(site);
    const bytesBefore = process.memoryUsage.rss();

    const attempts = await Promise.all(Array.from({ length: 30 }, () => attempt(site)));
    expect(attempts.map(({ page }) => page.status)).toEqual(Array(30).fill(502));
    const addedMebibytes = (process.memoryUsage.rss() - bytesBefore) / 2 ** 20;
    expect(addedMebibytes).toBeLessThan(64);
  });
});

test('R22 no failure puts a token, code, verifier or secret into a log line or a page', async () => {
  const secrets = new Set<string>([provider.clientSecret, encodeURIComponent(provider.clientSecret)]);
  const pages: string[] = [];
  const modes = [
    ...(Object.keys({ ...BAD_ID_TOKENS, ...BAD_CALLBACKS }) as ModeName[]),
    ...FAILURES.map(([mode]) => mode).filter((mode) => mode !== 'token-drip'),
    'userinfo-other-sub' as const,
  ];
  for (const mode of modes) {
    provider.reset();
    provider.setModes(mode, { onIssued: (value) => void secrets.add(value) });
    pages.push((await attempt(site)).page.body);
    for (const { body, headers } of provider.hits) {
      const verifier = new URLSearchParams(body).get('code_verifier');
      if (verifier) secrets.add(verifier);
      if (headers.authorization) secrets.add(headers.authorization.replace(/^\w+ /, ''));
    }
  }
  expect(secrets.size).toBeGreaterThan(modes.length);
  const output = [...site.logs(), ...pages].join('\n');
  expect(output.length).toBeGreaterThan(10_000);
  for (const secret of secrets) expect(output.includes(secret) && secret).toBe(false);
});
