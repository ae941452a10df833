/** What the record of a sign-in, the log and the audit trail are told as it ends: outcome, step, what was seen there, and of whom. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { ConnectedApp } from '../../src/connected-apps/connected-app.ts';
import {
  ProviderError,
  type ProviderErrorFacts,
  type ProviderFailure,
} from '../../src/connected-apps/provider-error.ts';
import type { SessionUser } from '../../src/http/session-data.ts';
import type { Events } from '../../src/observability/events.ts';
import type { SignInChanges, SignInRecord } from '../../src/sign-in/attempt.ts';
import { SignInError, type SignInFacts, type SignInFailure } from '../../src/sign-in/failure.ts';
import type { SignInRecords } from '../../src/sign-in/record.ts';
import { compareRedirectUri, createRecorder, type Visit } from '../../src/sign-in/recorder.ts';
import { createTrace, type StepName } from '../../src/sign-in/steps.ts';
import { hashOf } from '../../src/storage/keys.ts';

const NOW = 1_800_000_000_000;
const ADA = { id: 'u1', name: 'Ada', email: 'ada@example.test' } as SessionUser;
const VISIT: Visit = { reference: 'REF1', browserId: 'b1', browser: 'Firefox', origin: { address: '192.0.2.7' } };

let added: SignInChanges[];
let ended: Parameters<Events['signInEnded']>[0][];
let stored: Partial<SignInRecord> | undefined;
beforeEach(() => {
  [added, ended, stored] = [[], [], undefined];
});

const records = {
  add: async (_state, changes) => {
    added.push(changes);
    return undefined;
  },
  byState: async () => stored,
  besides: async () => [],
} as Partial<SignInRecords> as SignInRecords;
const events = { signInEnded: (facts) => void ended.push(facts) } as Partial<Events> as Events;
const recorder = createRecorder({ records, events, clock: () => NOW });

const step = { label: 'Try again', url: 'https://gatehouse.test/' };
function refusal(failure: SignInFailure, facts: SignInFacts = {}, cause?: unknown): SignInError {
  return new SignInError(failure, { step, facts, cause });
}

const said = (failure: ProviderFailure, reason: string, facts: ProviderErrorFacts = {}) =>
  new ProviderError(failure, reason, facts);
const badToken = (cause: object) =>
  refusal('token_answer_refused', {}, said('invalid', 'token_answer_invalid', { cause }));

/** @returns what was added to the record, by a callback or by a start that got nowhere */
async function failedWith(error: unknown, { cameBack = true, about = {} } = {}): Promise<SignInChanges> {
  const trace = createTrace(() => NOW);
  trace.pass(cameBack ? 'came_back' : 'started');
  await recorder.failed(VISIT, trace, { app: 'platform', purpose: 'sign_in', state: 's1', error, ...about });
  return added.at(-1) as SignInChanges;
}

const reached = ({ steps }: SignInChanges) => steps.map(({ name, ok }) => (ok ? name : `not ${name}`));
const detailOf = ({ steps }: SignInChanges) => steps.at(-1)?.detail;

const UP_TO_ANSWER: StepName[] = ['came_back', 'answer', 'token_endpoint'];
const CLAIMS = { iat: NOW / 1000 - 95 };

describe('the step that failed, and those before it', () => {
  test.each([
    ['state_missing', {}, ['came_back', 'not state']],
    ['cookie_missing', {}, ['came_back', 'state', 'not cookie']],
    ['other_user', {}, ['came_back', 'state', 'not cookie']],
    ['other_app', {}, ['came_back', 'not redirect_uri']],
    ['access_denied', {}, ['came_back', 'not answer']],
    ['code_refused', {}, ['came_back', 'answer', 'not token_endpoint']],
    ['not_permitted', {}, ['came_back', 'not permitted']],
    ['token_answer_refused', {}, ['came_back', 'answer', 'token_endpoint', 'not id_token_form']],
    // Only a refused token has a check to tell of.
    ['code_refused', { check: 'nonce' }, ['came_back', 'answer', 'not token_endpoint']],
  ] as const)('of a callback, %s with %j: %j', async (failure, facts, expected) => {
    expect(reached(await failedWith(refusal(failure, facts)))).toEqual(expected);
  });

  test.each([
    [{}, [...UP_TO_ANSWER, 'not id_token_form']],
    [{ claim: 'exp', claims: {} }, [...UP_TO_ANSWER, 'id_token_form', 'not id_token_times']],
    [{ claim: 'iss' }, [...UP_TO_ANSWER, 'id_token_form', 'id_token_times', 'not id_token_issuer']],
    [
      { claim: 'nonce' },
      [
        ...UP_TO_ANSWER,
        ...['id_token_form', 'id_token_times', 'id_token_issuer', 'id_token_audience', 'not id_token_nonce'],
      ],
    ],
    [
      { key: {}, signature: '' },
      [
        ...UP_TO_ANSWER,
        ...['id_token_form', 'id_token_times', 'id_token_issuer', 'id_token_audience', 'id_token_nonce'],
        'not id_token_signature',
      ],
    ],
  ])('of an ID token refused with %j: %j', async (cause, expected) => {
    expect(reached(await failedWith(badToken(cause)))).toEqual(expected);
  });

  test.each([
    ['unusable_app', 'redirect_uri'],
    ['disabled_app', 'started'],
    ['provider_unavailable', 'sent'],
    ['misconfigured', 'sent'],
  ] as const)('of a start, %s: %s', async (failure, name) => {
    expect(reached(await failedWith(refusal(failure), { cameBack: false }))).toEqual(['started', `not ${name}`]);
  });

  test('is not guessed where the failure is none of the named ones', async () => {
    const told = await failedWith(new Error('disk'));
    expect([told.failure, told.outcome, reached(told)]).toEqual(['internal', 'failed', ['came_back']]);
  });
});

test('a check that was passed is told once, whoever else says so, and in the order of the course', () => {
  const trace = createTrace(() => NOW);
  trace.pass('came_back');
  trace.pass('cookie', 'seen');
  trace.passAll('state', 'redirect_uri');
  trace.passAll('came_back', 'cookie');
  expect(trace.steps.map(({ name }) => name)).toEqual(['came_back', 'cookie', 'state', 'redirect_uri']);
  expect(trace.steps.map(({ detail }) => detail)).toEqual([undefined, 'seen', undefined, undefined]);
});

describe('what was seen there', () => {
  test.each([
    [
      refusal('code_refused', {}, said('refused', 'token_refused', { status: 400, oauthError: 'invalid_grant' })),
      'status 400, invalid_grant, token_refused',
    ],
    [
      refusal('answer_refused', {}, said('refused', 'authorization_refused', { oauthError: 'access_denied' })),
      'access_denied',
    ],
    [badToken({ claim: 'iat', claims: CLAIMS, now: NOW / 1000 }), 'our clock is 95 s ahead of the provider’s'],
    [refusal('unusable_app', { seen: 'nearest is another' }), 'nearest is another'],
    [refusal('state_missing'), undefined],
  ])('is the detail of the step', async (error, detail) => {
    expect(detailOf(await failedWith(error))).toBe(detail);
  });

  test('of a start that got nowhere, the reason is told', async () => {
    const error = refusal('provider_unavailable', {}, said('unavailable', 'timeout', { status: 504 }));
    expect(detailOf(await failedWith(error, { cameBack: false }))).toBe('status 504, timeout');
    // At the provider's answer the reason is the step itself.
    const answer = refusal('answer_refused', {}, said('invalid', 'authorization_response_invalid'));
    expect(detailOf(await failedWith(answer))).toBeUndefined();
  });

  test('the provider’s own words are kept where they are words of the protocol, and never otherwise (R22)', async () => {
    const seen = async (oauthError: string) =>
      (await failedWith(refusal('provider_refused', {}, said('refused', 'authorization_refused', { oauthError }))))
        .facts;
    expect(await seen('server_error')).toMatchObject({ oauthError: 'server_error' });
    for (const odd of ['<script>', 'no', 'a b', 'UPPER_CASE', 'x'.repeat(41), 'tok3n-abc', 'server_error\n']) {
      expect((await seen(odd))?.oauthError).toBeUndefined();
    }
  });

  test('a check is told of a refused ID token alone', async () => {
    const cause = { claim: 'nonce' };
    expect((await failedWith(badToken(cause))).facts).toMatchObject({ check: 'nonce' });
    const others = [
      said('unavailable', 'token_answer_invalid', { cause }),
      said('invalid', 'userinfo_invalid', { cause }),
    ];
    for (const other of others) {
      expect((await failedWith(refusal('token_answer_refused', {}, other))).facts).not.toHaveProperty('check');
    }
  });
});

describe('the outcome', () => {
  test.each([
    ['access_denied', 'refused'],
    ['not_permitted', 'refused'],
    ['step_up_refused', 'failed'],
    ['state_used', 'failed'],
  ] as const)('of %s is %s, in the record and in the event', async (failure, outcome) => {
    expect(await failedWith(refusal(failure))).toMatchObject({ outcome, failure, endedAt: NOW, purpose: 'sign_in' });
    expect(ended).toMatchObject([
      { app: 'platform', outcome, reason: failure, reference: 'REF1', origin: VISIT.origin },
    ]);
  });

  test('is that of whoever is known, named by address, or by name where there is none', async () => {
    await failedWith(refusal('not_permitted'), { about: { user: ADA } });
    await failedWith(refusal('not_permitted'), { about: { user: { id: 'u2', name: 'Bo' } } });
    expect(ended).toMatchObject([
      { userId: 'u1', userName: 'ada@example.test' },
      { userId: 'u2', userName: 'Bo' },
    ]);
    expect(added).toMatchObject([{ userId: 'u1', name: 'Ada', email: 'ada@example.test' }, { userId: 'u2' }]);
    const trace = createTrace(() => NOW);
    const facts = { app: 'platform', state: 's1', outcome: 'signed_in', userId: 'u2' } as const;
    await recorder.succeeded(VISIT, trace, { ...facts, user: { id: 'u2', name: 'Bo' } as SessionUser });
    expect(ended.at(-1)).toMatchObject({ outcome: 'signed_in', userId: 'u2', userName: 'Bo' });
    expect(added.at(-1)).toMatchObject({ outcome: 'signed_in', userId: 'u2', name: 'Bo', endedAt: NOW });
  });

  test('of a refused ID token presumes whom it names; one of whoever is known presumes nobody', async () => {
    const error = badToken({ claim: 'nonce', claims: { email: 'eve@example.test' } });
    expect(await failedWith(error)).toMatchObject({ email: 'eve@example.test', presumed: true });
    const known = await failedWith(error, { about: { user: ADA } });
    expect([known.email, known.presumed]).toEqual(['ada@example.test', undefined]);
  });

  test.each([
    [undefined, undefined, undefined, true],
    [undefined, undefined, 'b1', false],
    [undefined, 's1', undefined, false],
    ['connect' as const, undefined, undefined, false],
  ])(
    'R54 with the purpose %s, the state %s and the browser %s: unsolicited %s, which alone leaves no record',
    async (purpose, state, browserId, alone) => {
      const facts = { app: 'unknown', purpose, state, error: refusal('state_missing') };
      await recorder.failed(
        { ...VISIT, browserId },
        createTrace(() => NOW),
        facts,
      );
      expect(ended).toMatchObject([{ outcome: 'failed' }]);
      expect(ended[0]?.unsolicited).toBe(alone ? true : undefined);
      expect(added).toHaveLength(alone ? 0 : 1);
      if (!alone) expect(added[0]?.purpose).toBe(purpose);
    },
  );
});

describe('another browser came back', () => {
  const isOther = (visit: Partial<Visit>) => recorder.isOtherBrowser({ reference: 'R', ...visit }, 's1');

  test('by its id where both are known, else by what it says of itself', async () => {
    stored = { browserHash: hashOf('b1'), browser: 'Firefox' };
    expect(await isOther({ browserId: 'b1', browser: 'Chrome' })).toBe(false);
    expect(await isOther({ browserId: 'b2', browser: 'Firefox' })).toBe(true);
    expect(await isOther({ browser: 'Firefox' })).toBe(false);
    expect(await isOther({ browser: 'Chrome' })).toBe(true);
    stored = { browser: 'Firefox' };
    expect(await isOther({ browserId: 'b2', browser: 'Firefox' })).toBe(false);
  });

  test('is not said where nothing is known of the start', async () => {
    expect(await isOther({ browserId: 'b2', browser: 'Chrome' })).toBe(false);
  });
});

describe('the callback URL that is sent, beside the list of the app', () => {
  const SENT = 'https://gatehouse.test/oauth/callback/platform';
  const beside = (...callbackUrls: string[]) => compareRedirectUri(SENT, { callbackUrls } as unknown as ConnectedApp);

  test('is in it, or is told with the entry that is most like it', () => {
    expect(beside('https://other.test/', SENT)).toEqual({
      same: true,
      detail: `${SENT} is in the app’s list, character by character`,
    });
    const near = `${SENT}s`;
    for (const list of [
      ['https://other.test/', near],
      [near, 'https://other.test/'],
    ]) {
      expect(beside(...list)).toEqual({
        same: false,
        detail: `${SENT} is not in the app’s list; nearest is ${near}: character 47 is its end where the registered one has "s"`,
      });
    }
    expect(beside()).toEqual({ same: false, detail: `${SENT} is sent, and the app’s list is empty` });
  });
});
