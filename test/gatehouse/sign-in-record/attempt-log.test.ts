/** What the record of a sign-in, the log and the audit trail are told as it ends: outcome, step, what was seen there, and of whom. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { SignInChanges, SignInRecord } from '../../../src/gatehouse/sign-in-record/attempt.ts';
import {
  type AttemptFacts,
  type AttemptLog,
  createAttemptRecorder,
  type RequestInfo,
} from '../../../src/gatehouse/sign-in-record/attempt-log.ts';
import type { SignInFacts, SignInFailure } from '../../../src/gatehouse/sign-in-record/failures.ts';
import type { RecordReading, RecordStore } from '../../../src/gatehouse/sign-in-record/record-store.ts';
import { SignInError } from '../../../src/gatehouse/sign-in-record/sign-in-error.ts';
import type { StepName } from '../../../src/gatehouse/sign-in-record/steps.ts';
import { AppError } from '../../../src/shared/errors.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import { OutboundError } from '../../../src/shared/outbound/outbound.ts';
import {
  ProviderError,
  type ProviderErrorFacts,
  type ProviderFailure,
} from '../../../src/shared/provider/provider-error.ts';
import type { SessionUser } from '../../../src/shared/sessions/session.ts';
import { hashOf } from '../../../src/shared/storage/keys.ts';

const NOW = 1_800_000_000_000;
const ADA = { id: 'u1', name: 'Ada', email: 'ada@example.test' } as SessionUser;
const REQUEST: RequestInfo = {
  reference: 'REF1',
  browserSecret: 'b1',
  browser: 'Firefox',
  origin: { address: '192.0.2.7' },
};

let begun: Parameters<RecordStore['beginWrites']>[0][];
let added: SignInChanges[];
/** Of each change: the state and the pending attempt by which its record is found. */
let changed: { state: string | undefined; attempt: unknown }[];
let ended: Parameters<Events['signInEnded']>[0][];
let stored: Partial<SignInRecord> | Promise<never> | undefined;
beforeEach(() => {
  [begun, added, changed, ended, stored] = [[], [], [], [], undefined];
});

const READING: RecordReading = Promise.resolve(undefined);
const records = {
  beginWrites(attempt) {
    begun.push(attempt);
    return [];
  },
  add: async (state, changes, attempt) => {
    added.push(changes);
    changed.push({ state, attempt });
    return undefined;
  },
  prefetch: () => READING,
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
  refusal('token_response_refused', {}, said('invalid', 'token_answer_invalid', { cause }));

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
const EXCHANGED: StepName[] = [...CALLBACK, 'authorization_response', 'granted', 'token_endpoint'];
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
    ['access_denied', {}, 'redirect_uri', [...CALLBACK, 'authorization_response', 'not granted']],
    ['provider_refused', {}, 'redirect_uri', [...CALLBACK, 'authorization_response', 'not granted']],
    ['authorization_response_refused', {}, 'redirect_uri', [...CALLBACK, 'not authorization_response']],
    ['code_refused', {}, 'redirect_uri', [...CALLBACK, 'authorization_response', 'granted', 'not token_endpoint']],
    ['token_response_refused', {}, 'redirect_uri', [...EXCHANGED, 'not id_token_form']],
    [
      'token_response_refused',
      { reason: 'token_not_bound' },
      'redirect_uri',
      [...CALLBACK, 'authorization_response', 'granted', 'not token_endpoint'],
    ],
    ['token_response_refused', {}, 'id_token_signature', [...VERIFIED.slice(0, -1), 'not claims']],
    // Only a refused token has a check to tell of.
    [
      'code_refused',
      { check: 'nonce' },
      'redirect_uri',
      [...CALLBACK, 'authorization_response', 'granted', 'not token_endpoint'],
    ],
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
  expect(steps.map(({ name }) => name)).toEqual([...CALLBACK, 'authorization_response', 'granted']);
  expect(steps.map(({ detail }) => detail).filter(Boolean)).toEqual(['seen']);
});

describe('what was seen there', () => {
  test.each([
    [
      refusal('code_refused', {}, said('refused', 'token_refused', { status: 400, oauthError: 'invalid_grant' })),
      'status 400, invalid_grant, token_refused',
    ],
    [
      refusal(
        'authorization_response_refused',
        {},
        said('refused', 'authorization_refused', { oauthError: 'access_denied' }),
      ),
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
    const answer = refusal('authorization_response_refused', {}, said('invalid', 'authorization_response_invalid'));
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
      expect((await failedWith(refusal('token_response_refused', {}, other))).facts).not.toHaveProperty('check');
    }
  });
});

test('the detail of a step is cut to 500 characters', async () => {
  const seen = 'x'.repeat(501);
  expect(detailOf(await failedWith(refusal('unusable_app', { seen })))).toBe('x'.repeat(500));
});

describe('the facts of the record', () => {
  test('hold the status and the codes of the provider’s response, and none of its texts', async () => {
    const told = { status: 400, oauthError: 'invalid_grant', member: 'scope', host: 'evil.test', endpoint: 'token' };
    const { facts } = await failedWith(refusal('code_refused', {}, said('refused', 'token_refused', told)));
    expect(facts).toEqual({
      ...{ status: 400, oauthError: 'invalid_grant', reason: 'token_refused' },
      ...{ member: 'scope', host: 'evil.test' },
    });
  });

  test('name the call that brought no usable response, which is also the detail of its step', async () => {
    const cause = new OutboundError('connection', 'provider.test:443 refused the connection', 'Check the port.');
    const told = await failedWith(refusal('provider_unavailable', {}, said('unavailable', 'connection', { cause })));
    expect(told.facts).toMatchObject({
      call: { words: 'provider.test:443 refused the connection', advice: 'Check the port.' },
    });
    expect(detailOf(told)).toBe('provider.test:443 refused the connection');
  });

  test('name the member for which a token response was refused, and then no check of the ID token', async () => {
    const facts = { member: 'token_type', cause: { claim: 'nonce' } };
    const told = await failedWith(
      refusal('token_response_refused', {}, said('invalid', 'token_answer_invalid', facts)),
    );
    expect(told.facts).not.toHaveProperty('check');
    expect(detailOf(told)).toContain('token_type');
  });

  test('are those of the failure where the cause is no response of the provider', async () => {
    const cause = new AppError('storage_unavailable');
    expect((await failedWith(refusal('session_not_saved', {}, cause))).facts).toEqual({});
    expect((await failedWith(refusal('not_permitted', { disabled: true }))).facts).toEqual({ disabled: true });
    expect((await failedWith(new Error('disk'))).facts).toEqual({});
  });
});

describe('the start', () => {
  test('is stored with its steps, the browser and its address, and never with the browser’s secret', async () => {
    await recorder.record('platform', REQUEST, async (log) => {
      log.passed('started', 'platform');
      log.learn({ purpose: 'connect', user: ADA, trial: true });
      log.passed('sent');
      log.beginWrites({ state: 's1', startedAt: NOW - 5, redirectUri: 'https://gatehouse.test/callback' });
    });
    expect(begun).toMatchObject([
      {
        ...{ app: 'platform', purpose: 'connect', trial: true, reference: 'REF1', state: 's1', startedAt: NOW - 5 },
        ...{ userId: 'u1', name: 'Ada', email: 'ada@example.test', browser: 'Firefox', address: '192.0.2.7' },
        ...{ browserHash: hashOf('b1'), facts: { redirectUri: 'https://gatehouse.test/callback' } },
      },
    ]);
    expect(begun[0]?.steps).toEqual([
      { name: 'started', at: NOW, ok: true, detail: 'platform' },
      { name: 'sent', at: NOW, ok: true, detail: undefined },
    ]);
    expect(begun[0]).not.toHaveProperty('redirectUri');
    expect(JSON.stringify(begun)).not.toContain('"b1"');
  });

  test('is stored also where purpose and browser are unknown', async () => {
    const start = { state: 's1', startedAt: NOW, redirectUri: 'https://gatehouse.test/callback' };
    await recorder.record('platform', { reference: 'REF1' }, async (log) => log.beginWrites(start));
    expect(begun).toMatchObject([{ purpose: 'unknown', facts: { redirectUri: start.redirectUri } }]);
    expect([begun[0]?.browserHash, begun[0]?.address]).toEqual([undefined, undefined]);
  });
});

describe('the record that a request changes', () => {
  const changedBy = async (run: (log: AttemptLog) => Promise<void>) => {
    await recorder.record('platform', REQUEST, run).catch(() => undefined);
    return changed.at(-1);
  };

  test('is found by the state, or by the id of the pending request, and may have been read already', async () => {
    const byState = await changedBy(async (log) => {
      log.prefetch();
      log.learn({ state: 's1' });
      await log.succeeded('signed_in', 'u1');
    });
    expect(byState).toEqual({ state: 's1', attempt: undefined });
    const pending = { id: 'a1', state: 's1' };
    const byId = await changedBy(async (log) => {
      log.learn(pending);
      await log.succeeded('signed_in', 'u1');
    });
    expect(byId).toEqual({ state: 's1', attempt: { id: 'a1', reading: undefined } });
    const prefetched = await changedBy(async (log) => {
      log.learn(pending);
      log.prefetch();
      throw refusal('not_permitted');
    });
    expect(prefetched).toEqual({ state: 's1', attempt: { id: 'a1', reading: READING } });
  });
});

test('the id of a new attempt is the reference of its request in lower case', async () => {
  const idOf = async (log: AttemptLog) => log.newId;
  expect(await recorder.record('platform', REQUEST, idOf)).toBe('ref1');
});

describe('the outcome', () => {
  test('of a success is recorded as its end, and its event names the user, the address and the stronger sign-in', async () => {
    await recorder.record('platform', REQUEST, async (log) => {
      log.learn({ state: 's1', purpose: 'connect', user: ADA, trial: true, steppedUp: 'mfa' });
      await log.succeeded('connected', 'u1');
    });
    expect(added).toMatchObject([
      { outcome: 'connected', purpose: 'connect', trial: true, userId: 'u1', endedAt: NOW },
    ]);
    expect(added[0]).toHaveProperty('failure', undefined);
    expect(ended).toEqual([
      {
        ...{ app: 'platform', outcome: 'connected', userId: 'u1', userName: 'ada@example.test' },
        ...{ origin: REQUEST.origin, steppedUp: 'mfa' },
      },
    ]);
  });

  test('of a failure is recorded with the browser and the address of the callback', async () => {
    expect(await failedWith(refusal('state_used'))).toMatchObject({
      ...{ browser: 'Firefox', browserHash: hashOf('b1'), address: '192.0.2.7', facts: {} },
    });
    const cause = said('refused', 'token_refused', { oauthError: 'invalid_grant' });
    await failedWith(refusal('code_refused', {}, cause));
    expect(ended.map(({ providerError }) => providerError)).toEqual([undefined, 'invalid_grant']);
  });

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
    stored = Promise.reject(new Error('the storage is away'));
    expect(await isOther({ browserSecret: 'b2', browser: 'Chrome' })).toBe(false);
  });
});
