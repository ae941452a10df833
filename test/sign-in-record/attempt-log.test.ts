/** What the record of a sign-in, the log and the audit trail are told as it ends: outcome, step, what was seen there, and of whom. */
import { beforeEach, describe, expect, test } from 'vitest';
import {
  ProviderError,
  type ProviderErrorFacts,
  type ProviderFailure,
} from '../../src/connected-apps/provider-error.ts';
import type { Events } from '../../src/observability/events.ts';
import type { SessionUser } from '../../src/sessions/session.ts';
import type { SignInChanges, SignInRecord } from '../../src/sign-in-record/attempt.ts';
import { type AttemptFacts, createAttemptRecorder, type RequestInfo } from '../../src/sign-in-record/attempt-log.ts';
import type { SignInFacts, SignInFailure } from '../../src/sign-in-record/failures.ts';
import type { RecordStore } from '../../src/sign-in-record/record-store.ts';
import { SignInError } from '../../src/sign-in-record/sign-in-error.ts';
import type { StepName } from '../../src/sign-in-record/steps.ts';
import { hashOf } from '../../src/storage/keys.ts';

const NOW = 1_800_000_000_000;
const ADA = { id: 'u1', name: 'Ada', email: 'ada@example.test' } as SessionUser;
const REQUEST: RequestInfo = {
  reference: 'REF1',
  browserSecret: 'b1',
  browser: 'Firefox',
  origin: { address: '192.0.2.7' },
};

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
} as Partial<RecordStore> as RecordStore;
const events = { signInEnded: (facts) => void ended.push(facts) } as Partial<Events> as Events;
const recorder = createAttemptRecorder({ records, events, clock: () => NOW });

const step = { label: 'Try again', url: 'https://gatehouse.test/' };
function refusal(failure: SignInFailure, facts: SignInFacts = {}, cause?: unknown): SignInError {
  return new SignInError(failure, { step, facts, cause });
}

const said = (failure: ProviderFailure, reason: string, facts: ProviderErrorFacts = {}) =>
  new ProviderError(failure, reason, facts);
const badToken = (cause: object) =>
  refusal('token_answer_refused', {}, said('invalid', 'token_answer_invalid', { cause }));

/** @returns what was added to the record, by a callback or by a start that got nowhere */
async function failedWith(
  error: unknown,
  { cameBack = true, upTo = 'came_back' as StepName, about = {} as AttemptFacts } = {},
): Promise<SignInChanges> {
  const run = recorder.record('platform', REQUEST, async (log) => {
    log.passed(cameBack ? 'came_back' : 'started');
    if (cameBack) log.passedUpTo(upTo);
    log.learn({ purpose: 'sign_in', state: 's1', ...about });
    throw error;
  });
  await expect(run).rejects.toBe(error);
  return added.at(-1) as SignInChanges;
}

const reached = ({ steps }: SignInChanges) => steps.map(({ name, ok }) => (ok ? name : `not ${name}`));
const detailOf = ({ steps }: SignInChanges) => steps.at(-1)?.detail;

const CALLBACK: StepName[] = ['came_back', 'state', 'cookie', 'redirect_uri'];
const EXCHANGED: StepName[] = [...CALLBACK, 'answer', 'granted', 'token_endpoint'];
const VERIFIED: StepName[] = [
  ...EXCHANGED,
  ...(['id_token_form', 'id_token_times', 'id_token_issuer', 'id_token_audience'] as const),
  ...(['id_token_nonce', 'id_token_signature', 'claims'] as const),
];
const CLAIMS = { iat: NOW / 1000 - 95 };

describe('the step that failed, and those before it', () => {
  test.each([
    ['state_missing', {}, 'came_back', ['came_back', 'not state']],
    ['cookie_missing', {}, 'came_back', ['came_back', 'state', 'not cookie']],
    ['other_app', {}, 'cookie', ['came_back', 'state', 'cookie', 'not redirect_uri']],
    ['other_user', {}, 'cookie', ['came_back', 'state', 'cookie', 'not cookie']],
    ['access_denied', {}, 'redirect_uri', [...CALLBACK, 'answer', 'not granted']],
    ['provider_refused', {}, 'redirect_uri', [...CALLBACK, 'answer', 'not granted']],
    ['answer_refused', {}, 'redirect_uri', [...CALLBACK, 'not answer']],
    ['code_refused', {}, 'redirect_uri', [...CALLBACK, 'answer', 'granted', 'not token_endpoint']],
    ['token_answer_refused', {}, 'redirect_uri', [...EXCHANGED, 'not id_token_form']],
    [
      'token_answer_refused',
      { reason: 'token_not_bound' },
      'redirect_uri',
      [...CALLBACK, 'answer', 'granted', 'not token_endpoint'],
    ],
    ['token_answer_refused', {}, 'id_token_signature', [...VERIFIED.slice(0, -1), 'not claims']],
    // Only a refused token has a check to tell of.
    ['code_refused', { check: 'nonce' }, 'redirect_uri', [...CALLBACK, 'answer', 'granted', 'not token_endpoint']],
    ['not_permitted', {}, 'claims', [...VERIFIED, 'not permitted']],
    // A connection is saved without the steps of a session.
    ['connection_not_saved', {}, 'claims', [...VERIFIED, 'not connection']],
  ] as const)('of a callback, %s with %j after %s: %j', async (failure, facts, upTo, expected) => {
    expect(reached(await failedWith(refusal(failure, facts), { upTo }))).toEqual(expected);
  });

  test.each([
    [{}, [...EXCHANGED, 'not id_token_form']],
    [{ claim: 'exp', claims: {} }, [...EXCHANGED, 'id_token_form', 'not id_token_times']],
    [{ claim: 'iss' }, [...EXCHANGED, 'id_token_form', 'id_token_times', 'not id_token_issuer']],
    [
      { claim: 'nonce' },
      [
        ...EXCHANGED,
        ...['id_token_form', 'id_token_times', 'id_token_issuer', 'id_token_audience', 'not id_token_nonce'],
      ],
    ],
    [
      { code: 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED' },
      [
        ...EXCHANGED,
        ...['id_token_form', 'id_token_times', 'id_token_issuer', 'id_token_audience', 'id_token_nonce'],
        'not id_token_signature',
      ],
    ],
  ])('of an ID token refused with %j: %j', async (cause, expected) => {
    expect(reached(await failedWith(badToken(cause), { upTo: 'redirect_uri' }))).toEqual(expected);
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

test('steps are recorded once and in their order', async () => {
  await recorder.record('platform', REQUEST, async (log) => {
    log.passed('came_back');
    log.passedUpTo('cookie');
    log.passed('redirect_uri', 'seen');
    log.passedUpTo('cookie');
    log.passedUpTo('granted');
    await log.succeeded('signed_in', 'u1');
  });
  const { steps } = added.at(-1) as SignInChanges;
  expect(steps.map(({ name }) => name)).toEqual([...CALLBACK, 'answer', 'granted']);
  expect(steps.map(({ detail }) => detail).filter(Boolean)).toEqual(['seen']);
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

  test('the provider’s own code is kept if RFC 6749 allows it as one, and no other text (R22)', async () => {
    const seen = async (oauthError: string) =>
      (await failedWith(refusal('provider_refused', {}, said('refused', 'authorization_refused', { oauthError }))))
        .facts;
    expect(await seen('server_error')).toMatchObject({ oauthError: 'server_error' });
    for (const code of ['no', 'BAD_REFRESH_TOKEN', 'urn:example:error-7', 'x'.repeat(100)])
      expect(await seen(code)).toMatchObject({ oauthError: code });
    for (const odd of ['', 'a b', 'a"b', 'a\\b', 'é', 'x'.repeat(101), 'server_error\n']) {
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
      { app: 'platform', outcome, reason: failure, reference: 'REF1', origin: REQUEST.origin },
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
    await recorder.record('platform', REQUEST, async (log) => {
      log.learn({ state: 's1', user: { id: 'u2', name: 'Bo' } });
      await log.succeeded('signed_in', 'u2');
    });
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
    async (purpose, state, browserSecret, alone) => {
      const run = recorder.record('unknown', { ...REQUEST, browserSecret }, async (log) => {
        if (purpose) log.learn({ purpose });
        if (state) log.learn({ state });
        throw refusal('state_missing');
      });
      await expect(run).rejects.toThrow(SignInError);
      expect(ended).toMatchObject([{ outcome: 'failed' }]);
      expect(ended[0]?.unsolicited).toBe(alone ? true : undefined);
      expect(added).toHaveLength(alone ? 0 : 1);
      if (!alone) expect(added[0]?.purpose).toBe(purpose);
    },
  );
});

describe('another browser came back', () => {
  const isOther = (request: Partial<RequestInfo>) => recorder.isOtherBrowser({ reference: 'R', ...request }, 's1');

  test('by its id where both are known, else by what it says of itself', async () => {
    stored = { browserHash: hashOf('b1'), browser: 'Firefox' };
    expect(await isOther({ browserSecret: 'b1', browser: 'Chrome' })).toBe(false);
    expect(await isOther({ browserSecret: 'b2', browser: 'Firefox' })).toBe(true);
    expect(await isOther({ browserSecret: 'b2', earlierBrowserSecret: 'b1', browser: 'Chrome' })).toBe(false);
    expect(await isOther({ browser: 'Firefox' })).toBe(false);
    expect(await isOther({ browser: 'Chrome' })).toBe(true);
    stored = { browser: 'Firefox' };
    expect(await isOther({ browserSecret: 'b2', browser: 'Firefox' })).toBe(false);
  });

  test('is not said where nothing is known of the start', async () => {
    expect(await isOther({ browserSecret: 'b2', browser: 'Chrome' })).toBe(false);
  });
});
