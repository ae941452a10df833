/** Grants of providers with unusual token responses: they are refreshed, and the new refresh token is stored (R32). */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { BROKEN_RESPONSES, type BrokenResponse } from '../../support/broken-responses.ts';
import { getJson } from '../../support/gatehouse.ts';
import { type Mode, NESTED_TOKENS, ODD_TOKEN_RESPONSES } from '../../support/hostile-modes.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { advanceClock, resetClock } from '../../support/test-clock.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

const HOUR = 3600;

let provider: HostileProvider;
let site: HostileSite;
let storage: StorageAccess;
beforeAll(async () => {
  provider = await startHostileProvider();
  site = await startHostileSite({
    apps: (hostile, url) => [
      hostile.app(url, { id: 'plain' }),
      hostile.app(url, { id: 'nested', tokenPath: 'authed_user', tokenParameters: { audience: 'the-api' } }),
    ],
    provider,
    // The sessions last longer than the access tokens of this provider.
    env: { SESSION_IDLE_SECONDS: '28800' },
  });
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage.close();
  await site.close();
  await provider.close();
});
afterEach(() => {
  provider.reset();
  resetClock();
});

async function signInUser(app: string, mode: Mode, subject: string) {
  provider.signInAs({ sub: subject, name: subject });
  provider.setModes(mode);
  const { agent, signedIn } = await attempt(site, { path: `/sign-in?app=${app}` });
  expect(signedIn).toBe(true);
  const { userId } = await sessionOf(site, agent);
  const getThread = () => getJson(agent, `${site.url}/threads/current?app=${app}`);
  return { userId, getThread, readGrant: () => storage.readGrant(userId, app) };
}

const TOKEN_RESPONSES: [string, string, Mode][] = [
  ...Object.entries(ODD_TOKEN_RESPONSES)
    // Without a lifetime, only an access token that the platform refuses is refreshed.
    .filter(([name]) => name !== 'tokens-with-nulls')
    .map(([name, mode]): [string, string, Mode] => [name, 'plain', mode]),
  ['nested', 'nested', NESTED_TOKENS],
];

test.each(TOKEN_RESPONSES)(
  'a user signs in, reads, and gets two refreshes with token responses of the form %s',
  async (name, app, mode) => {
    const { getThread, readGrant } = await signInUser(app, mode, `user-of-${name}`);
    const refreshTokens = new Set([(await readGrant()).refreshToken]);

    for (const _round of [1, 2]) {
      advanceClock(HOUR + 1);
      expect((await getThread()).status).toBe(200);
      refreshTokens.add((await readGrant()).refreshToken);
    }
    expect(refreshTokens.size).toBe(3);

    const bodies = provider.hitsOf('refresh').map(({ body }) => new URLSearchParams(body));
    expect(bodies.map((body) => body.get('audience'))).toEqual(bodies.map(() => (app === 'nested' ? 'the-api' : null)));
  },
);

/** A response in this form, with an access token that no header can carry. */
const withMalformedToken = (write: BrokenResponse): Mode => ({
  responses: {
    refresh: (res, context) =>
      write(res, { ...context, body: JSON.stringify({ ...JSON.parse(context.body), access_token: 'a\nb' }) }),
  },
});
const MALFORMED_RESPONSES: [string, string, Mode][] = [
  ['a form', 'plain', withMalformedToken(BROKEN_RESPONSES.form)],
  ['plain text', 'plain', withMalformedToken(BROKEN_RESPONSES['form-as-text'])],
  ['a 201', 'plain', withMalformedToken(BROKEN_RESPONSES.created)],
  ['a nested object', 'nested', { refreshResponse: (body) => ({ authed_user: { ...body, access_token: 'a\nb' } }) }],
];

test.each(MALFORMED_RESPONSES)(
  'R32 the new refresh token of a malformed response in the form of %s is stored, and the old one is not sent again',
  async (name, app, mode) => {
    const { getThread, readGrant } = await signInUser(app, {}, `user-with-${name.replaceAll(' ', '-')}`);
    const originalGrant = await readGrant();
    provider.setModes(mode);
    advanceClock(HOUR + 1);

    expect((await getThread()).json.code).toBe('provider_unavailable');

    const { accessToken, refreshToken, failure } = await readGrant();
    expect([accessToken, failure?.cause]).toEqual([originalGrant.accessToken, 'unusable_response']);
    expect(refreshToken).not.toBe(originalGrant.refreshToken);

    // This provider rotates strictly: the token that was sent first would be refused.
    provider.setModes();
    advanceClock(60);

    expect((await getThread()).status).toBe(200);
  },
);
