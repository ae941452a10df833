/** Responses of a hostile provider at sign-in: invalid ones begin no session, unusual but valid ones do. */
import { CompactSign } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { SIGN_IN_FAILURES, type SignInFailure } from '../../../src/gatehouse/sign-in-record/failures.ts';
import type { BrokenResponse } from '../../support/broken-responses.ts';
import {
  BAD_CALLBACKS,
  BAD_ID_TOKENS,
  BAD_METADATA,
  type Mode,
  NESTED_TOKENS,
  ODD_BUT_LEGAL,
  type ReplaceableEndpoint,
} from '../../support/hostile-modes.ts';
import { type HostileProvider, type ModeName, startHostileProvider } from '../../support/hostile-provider.ts';
import { attempt, expectNamedCause, type HostileSite, startHostileSite } from './attempt.ts';

let provider: HostileProvider;
let sharedSite: HostileSite;
const sitesOfTest: HostileSite[] = [];

beforeAll(async () => {
  provider = await startHostileProvider();
  sharedSite = await startHostileSite({ provider });
  // Metadata and keys are loaded before the provider misbehaves.
  expect((await attempt(sharedSite)).signedIn).toBe(true);
  provider.reset();
});
afterEach(async () => {
  provider.reset();
  await Promise.all(sitesOfTest.splice(0).map((site) => site.close()));
});
afterAll(async () => {
  await sharedSite.close();
  await provider.close();
});

async function startFreshSite(options: Parameters<typeof startHostileSite>[0] = {}): Promise<HostileSite> {
  const site = await startHostileSite({ provider, ...options });
  sitesOfTest.push(site);
  return site;
}

/** Metadata and keys are cached, so a mode that changes them needs a Gatehouse that has not loaded them. */
async function siteFor(mode: Mode): Promise<HostileSite> {
  return mode.metadata || mode.jwks || mode.basic ? startFreshSite() : sharedSite;
}

const entriesOf = <T extends Record<string, Mode>>(modes: T) => Object.entries(modes) as [ModeName, Mode][];

async function expectRefused(site: HostileSite, mode: ModeName | Mode, failure: SignInFailure): Promise<void> {
  provider.setModes(mode);
  const { page, signedIn } = await attempt(site);
  expect(signedIn).toBe(false);
  expectNamedCause(page, SIGN_IN_FAILURES[failure].detail);
}

describe('R18, R23: an invalid ID token begins no session', () => {
  test.each(entriesOf(BAD_ID_TOKENS))('%s', async (name, mode) => {
    await expectRefused(await siteFor(mode), name, 'token_response_refused');
    expect(provider.hitsOf('token')).toHaveLength(1);
  });
});

describe('R26, R27: an unusual but valid response begins a session', () => {
  test.each(entriesOf(ODD_BUT_LEGAL).filter(([name]) => name !== 'basic-not-decoded'))('%s', async (name, mode) => {
    const site = await siteFor(mode);
    provider.setModes(name);
    const { page, signedIn } = await attempt(site);
    expect([page.status, page.url, signedIn]).toEqual([200, `${site.url}/`, true]);
  });
});

test('R26 nested tokens begin a session if the app names their path', async () => {
  const site = await startFreshSite({ app: { tokenPath: 'authed_user' } });
  provider.setModes(NESTED_TOKENS);
  expect((await attempt(site)).signedIn).toBe(true);
});

const CALLBACK_CAUSES: Record<keyof typeof BAD_CALLBACKS, SignInFailure> = {
  'callback-iss-missing': 'authorization_response_refused',
  'callback-iss-wrong': 'authorization_response_refused',
  'callback-iss-with-slash': 'authorization_response_refused',
  'callback-iss-wrong-unadvertised': 'authorization_response_refused',
  'callback-state-changed': 'state_invented',
  'callback-state-missing': 'state_missing',
  'callback-code-missing': 'authorization_response_refused',
  'callback-code-twice': 'parameter_doubled',
  'callback-state-twice': 'parameter_doubled',
  'callback-iss-twice': 'parameter_doubled',
  'callback-error-twice': 'parameter_doubled',
  'callback-implicit-token': 'authorization_response_refused',
  'callback-hybrid-id-token': 'authorization_response_refused',
  'callback-access-denied': 'access_denied',
  'callback-consent-required': 'access_denied',
  'callback-server-error': 'provider_refused',
  'callback-invalid-scope': 'provider_refused',
  'callback-script-error': 'provider_refused',
  'callback-error-and-code': 'access_denied',
};

describe('R13, R14, R15: an invalid callback is refused before its code is sent', () => {
  test.each(Object.entries(CALLBACK_CAUSES) as [keyof typeof BAD_CALLBACKS, SignInFailure][])(
    '%s: %s',
    async (name, failure) => {
      const site = await siteFor(BAD_CALLBACKS[name]);
      await expectRefused(site, name, failure);
      expect(provider.hitsOf('token')).toHaveLength(0);
    },
  );
});

describe('R20: invalid metadata stops every request', () => {
  test.each(entriesOf(BAD_METADATA))('%s', async (name) => {
    const failure = name === 'discovery-no-issuer' ? 'provider_unavailable' : 'misconfigured';
    await expectRefused(await startFreshSite(), name, failure);
    expect(provider.hits.map(({ endpoint }) => endpoint)).toEqual(['discovery']);
  });
});

describe('R96: a member nested 100,000 levels deep does not cause a 500', () => {
  const deepArray = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const withDeepMember = (object: string) => `${object.slice(0, -1)},"deep":${deepArray}}`;

  test.each<[ReplaceableEndpoint, number]>([
    // The protocol library copies metadata recursively, so this is refused.
    ['discovery', 502],
    ['jwks', 200],
    ['token', 200],
    ['userinfo', 200],
  ])('in the response of %s', async (endpoint, status) => {
    const site = endpoint === 'discovery' || endpoint === 'jwks' ? await startFreshSite() : sharedSite;
    const headers = { 'content-type': 'application/json' };
    const respondWithDeepMember: BrokenResponse = (res, { body }) =>
      void res.writeHead(200, headers).end(withDeepMember(body));
    provider.setModes({
      claims: ({ name: _name, ...claims }) => claims,
      responses: { [endpoint]: respondWithDeepMember },
    });
    const { page, signedIn } = await attempt(site);
    expect([page.status, signedIn]).toEqual([status, status === 200]);
    expect(provider.hitsOf(endpoint)).toHaveLength(1);
  });

  test('in an ID token', async () => {
    provider.setModes({
      sign: (claims, { keys }) =>
        new CompactSign(Buffer.from(withDeepMember(JSON.stringify(claims))))
          .setProtectedHeader({ alg: keys.rs256.alg, kid: keys.rs256.kid })
          .sign(keys.rs256.privateKey),
    });
    const { page, signedIn } = await attempt(sharedSite);
    expect([page.status, signedIn]).toEqual([200, true]);
  });
});
