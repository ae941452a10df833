/** What the sign-in record and the events receive when a sign-in ends: outcome, failed step, detail and user. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { SignInChanges, SignInRecord } from '../../../src/gatehouse/sign-in-record/attempt.ts';
import {
  type AttemptFacts,
  type AttemptLog,
  createAttemptRecorder,
  isOtherBrowser,
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
  browserSecrets: ['b1'],
  browser: 'Firefox',
  origin: { address: '192.0.2.7' },
};

let startedAttempts: Parameters<RecordStore['beginWrites']>[0][];
let addedChanges: SignInChanges[];
/** For each change, the state and the pending attempt by which its record is found. */
let changedRecords: { state: string | undefined; attempt: unknown }[];
let events: Parameters<Events['signInEnded']>[0][];
let storedRecord: Partial<SignInRecord> | Promise<never> | undefined;
beforeEach(() => {
  startedAttempts = [];
  addedChanges = [];
  changedRecords = [];
  events = [];
  storedRecord = undefined;
});

const READING: RecordReading = Promise.resolve(undefined);
const records = {
  beginWrites(attempt) {
    startedAttempts.push(attempt);
    return [];
  },
  add: async (state, changes, attempt) => {
    addedChanges.push(changes);
    changedRecords.push({ state, attempt });
    return undefined;
  },
  prefetch: () => READING,
  byState: async () => storedRecord,
} as Partial<RecordStore> as RecordStore;
const eventSink = { signInEnded: (facts) => void events.push(facts) } as Partial<Events> as Events;
const recorder = createAttemptRecorder({ records, events: eventSink, clock: () => NOW });

const action = { label: 'Try again', url: 'https://gatehouse.test/' };
function createError(failure: SignInFailure, facts: SignInFacts = {}, cause?: unknown): SignInError {
  return new SignInError(failure, { action, facts, cause });
}

const providerError = (failure: ProviderFailure, reason: string, facts: ProviderErrorFacts = {}) =>
  new ProviderError(failure, reason, facts);
const createTokenError = (cause: object) =>
  createError('token_response_refused', {}, providerError('invalid', 'token_response_invalid', { cause }));

/** Fails a callback or a start with this error. @returns the changes of the record */
async function failWith(
  error: unknown,
  { isCallback = true, upTo = 'came_back' as StepName, facts = {} as AttemptFacts } = {},
): Promise<SignInChanges> {
  const run = recorder.runAndRecord('platform', REQUEST, async (log) => {
    log.passed(isCallback ? 'came_back' : 'started');
    if (isCallback) log.passedUpTo(upTo);
    log.learn({ purpose: 'sign_in', state: 's1', ...facts });
    throw error;
  });
  await expect(run).rejects.toBe(error);
  return addedChanges.at(-1) as SignInChanges;
}

/** The names of the recorded steps. Those of failed ones have the prefix `not`. */
const stepNamesOf = ({ steps }: SignInChanges) => steps.map(({ name, ok }) => (ok ? name : `not ${name}`));
const detailOf = ({ steps }: SignInChanges) => steps.at(-1)?.detail;

const CALLBACK: StepName[] = ['came_back', 'state', 'cookie', 'redirect_uri'];
const EXCHANGED: StepName[] = [...CALLBACK, 'authorization_response', 'granted', 'token_endpoint'];
const VERIFIED: StepName[] = [
  ...EXCHANGED,
  'id_token_form',
  'id_token_times',
  'id_token_issuer',
  'id_token_audience',
  'id_token_nonce',
  'id_token_signature',
  'claims',
];
const CLAIMS = { iat: NOW / 1000 - 95 };

describe('the steps up to the failed one', () => {
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
    // Only a refused token response has a failed check.
    [
      'code_refused',
      { check: 'nonce' },
      'redirect_uri',
      [...CALLBACK, 'authorization_response', 'granted', 'not token_endpoint'],
    ],
    ['not_permitted', {}, 'claims', [...VERIFIED, 'not permitted']],
    // A connection is saved without the steps of a session.
    ['connection_not_saved', {}, 'claims', [...VERIFIED, 'not connection']],
  ] as const)(
    'of a callback that fails with %s and facts %j after %s are %j',
    async (failure, facts, upTo, expected) => {
      expect(stepNamesOf(await failWith(createError(failure, facts), { upTo }))).toEqual(expected);
    },
  );

  test.each([
    [{}, [...EXCHANGED, 'not id_token_form']],
    [{ claim: 'exp', claims: {} }, [...EXCHANGED, 'id_token_form', 'not id_token_times']],
    [{ claim: 'iss' }, [...EXCHANGED, 'id_token_form', 'id_token_times', 'not id_token_issuer']],
    [
      { claim: 'nonce' },
      [...EXCHANGED, 'id_token_form', 'id_token_times', 'id_token_issuer', 'id_token_audience', 'not id_token_nonce'],
    ],
    [
      { code: 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED' },
      [
        ...EXCHANGED,
        'id_token_form',
        'id_token_times',
        'id_token_issuer',
        'id_token_audience',
        'id_token_nonce',
        'not id_token_signature',
      ],
    ],
  ])('of an ID token that is refused with %j are %j', async (cause, expected) => {
    expect(stepNamesOf(await failWith(createTokenError(cause), { upTo: 'redirect_uri' }))).toEqual(expected);
  });

  test.each([
    ['unusable_app', 'redirect_uri'],
    ['disabled_app', 'started'],
    ['provider_unavailable', 'sent'],
    ['misconfigured', 'sent'],
  ] as const)('of a start that fails with %s end with %s', async (failure, failedStep) => {
    expect(stepNamesOf(await failWith(createError(failure), { isCallback: false }))).toEqual([
      'started',
      `not ${failedStep}`,
    ]);
  });

  test('of an unexpected error have none that failed', async () => {
    const changes = await failWith(new Error('disk'));
    expect([changes.failure, changes.outcome, stepNamesOf(changes)]).toEqual(['internal', 'failed', ['came_back']]);
  });
});

test('records each step once, in order', async () => {
  await recorder.runAndRecord('platform', REQUEST, async (log) => {
    log.passed('came_back');
    log.passedUpTo('cookie');
    log.passed('redirect_uri', 'seen');
    log.passedUpTo('cookie');
    log.passedUpTo('granted');
    await log.succeeded('signed_in', 'u1');
  });
  const { steps } = addedChanges.at(-1) as SignInChanges;
  expect(steps.map(({ name }) => name)).toEqual([...CALLBACK, 'authorization_response', 'granted']);
  expect(steps.map(({ detail }) => detail).filter(Boolean)).toEqual(['seen']);
});

describe('the detail of the failed step', () => {
  test.each([
    [
      createError(
        'code_refused',
        {},
        providerError('refused', 'token_refused', { status: 400, oauthError: 'invalid_grant' }),
      ),
      'status 400, invalid_grant, token_refused',
    ],
    [
      createError(
        'authorization_response_refused',
        {},
        providerError('refused', 'authorization_refused', { oauthError: 'access_denied' }),
      ),
      'access_denied',
    ],
    [createTokenError({ claim: 'iat', claims: CLAIMS, now: NOW / 1000 }), 'our clock is 95 s ahead of the provider’s'],
    [createError('unusable_app', { seen: 'nearest is another' }), 'nearest is another'],
    [createError('state_missing'), undefined],
  ])('is derived from the error', async (error, detail) => {
    expect(detailOf(await failWith(error))).toBe(detail);
  });

  test('has the reason of a failed start, but not if the step itself is the reason', async () => {
    const error = createError('provider_unavailable', {}, providerError('unavailable', 'timeout', { status: 504 }));
    expect(detailOf(await failWith(error, { isCallback: false }))).toBe('status 504, timeout');

    const refusedResponse = createError(
      'authorization_response_refused',
      {},
      providerError('invalid', 'authorization_response_invalid'),
    );
    expect(detailOf(await failWith(refusedResponse))).toBeUndefined();
  });

  test('R22 has the provider’s error code if RFC 6749 allows its characters, and no other text', async () => {
    const factsAfter = async (oauthError: string) => {
      const cause = providerError('refused', 'authorization_refused', { oauthError });
      const { facts } = await failWith(createError('provider_refused', {}, cause));
      return facts;
    };

    expect(await factsAfter('server_error')).toMatchObject({ oauthError: 'server_error' });
    for (const code of ['no', 'BAD_REFRESH_TOKEN', 'urn:example:error-7', 'x'.repeat(100)])
      expect(await factsAfter(code)).toMatchObject({ oauthError: code });
    for (const text of ['', 'a b', 'a"b', 'a\\b', 'é', 'x'.repeat(101), 'server_error\n']) {
      expect((await factsAfter(text))?.oauthError).toBeUndefined();
    }
  });

  test('has a failed check only for a refused ID token', async () => {
    const cause = { claim: 'nonce' };
    expect((await failWith(createTokenError(cause))).facts).toMatchObject({ check: 'nonce' });
    const otherErrors = [
      providerError('unavailable', 'token_response_invalid', { cause }),
      providerError('invalid', 'userinfo_invalid', { cause }),
    ];
    for (const error of otherErrors) {
      expect((await failWith(createError('token_response_refused', {}, error))).facts).not.toHaveProperty('check');
    }
  });
});

test('cuts the detail of a step to 500 characters', async () => {
  const seen = 'x'.repeat(501);
  expect(detailOf(await failWith(createError('unusable_app', { seen })))).toBe('x'.repeat(500));
});

describe('the facts of the record', () => {
  test('contain the status and the codes of the provider’s response, but none of its texts', async () => {
    const responseFacts = {
      status: 400,
      oauthError: 'invalid_grant',
      member: 'scope',
      host: 'evil.test',
      endpoint: 'token',
    };
    const { facts } = await failWith(
      createError('code_refused', {}, providerError('refused', 'token_refused', responseFacts)),
    );
    expect(facts).toEqual({
      status: 400,
      oauthError: 'invalid_grant',
      reason: 'token_refused',
      member: 'scope',
      host: 'evil.test',
    });
  });

  test('name the failed call, which is also the detail of its step', async () => {
    const cause = new OutboundError('connection', 'provider.test:443 refused the connection', 'Check the port.');
    const changes = await failWith(
      createError('provider_unavailable', {}, providerError('unavailable', 'connection', { cause })),
    );
    expect(changes.facts).toMatchObject({
      call: { words: 'provider.test:443 refused the connection', advice: 'Check the port.' },
    });
    expect(detailOf(changes)).toBe('provider.test:443 refused the connection');
  });

  test('name the member for which a token response was refused, and no check of the ID token', async () => {
    const facts = { member: 'token_type', cause: { claim: 'nonce' } };
    const changes = await failWith(
      createError('token_response_refused', {}, providerError('invalid', 'token_response_invalid', facts)),
    );
    expect(changes.facts).not.toHaveProperty('check');
    expect(detailOf(changes)).toContain('token_type');
  });

  test('are those of the failure if the cause is not a response of the provider', async () => {
    const cause = new AppError('storage_unavailable');
    expect((await failWith(createError('session_not_saved', {}, cause))).facts).toEqual({});
    expect((await failWith(createError('not_permitted', { disabled: true }))).facts).toEqual({ disabled: true });
    expect((await failWith(new Error('disk'))).facts).toEqual({});
  });
});

describe('the start', () => {
  test('is stored with its steps, the browser and its address, but not with the browser secret', async () => {
    await recorder.runAndRecord('platform', REQUEST, async (log) => {
      log.passed('started', 'platform');
      log.learn({ purpose: 'connect', user: ADA, trial: true });
      log.passed('sent');
      log.beginWrites({ state: 's1', startedAt: NOW - 5, redirectUri: 'https://gatehouse.test/callback' });
    });
    expect(startedAttempts).toMatchObject([
      {
        app: 'platform',
        purpose: 'connect',
        trial: true,
        reference: 'REF1',
        state: 's1',
        startedAt: NOW - 5,
        userId: 'u1',
        name: 'Ada',
        email: 'ada@example.test',
        browser: 'Firefox',
        address: '192.0.2.7',
        browserHash: hashOf('b1'),
        facts: { redirectUri: 'https://gatehouse.test/callback' },
      },
    ]);
    expect(startedAttempts[0]?.steps).toEqual([
      { name: 'started', at: NOW, ok: true, detail: 'platform' },
      { name: 'sent', at: NOW, ok: true, detail: undefined },
    ]);
    expect(startedAttempts[0]).not.toHaveProperty('redirectUri');
    expect(JSON.stringify(startedAttempts)).not.toContain('"b1"');
  });

  test('is stored even if purpose and browser are unknown', async () => {
    const start = { state: 's1', startedAt: NOW, redirectUri: 'https://gatehouse.test/callback' };
    await recorder.runAndRecord('platform', { reference: 'REF1' }, async (log) => log.beginWrites(start));
    expect(startedAttempts).toMatchObject([{ purpose: 'unknown', facts: { redirectUri: start.redirectUri } }]);
    expect([startedAttempts[0]?.browserHash, startedAttempts[0]?.address]).toEqual([undefined, undefined]);
  });
});

describe('the record that a request changes', () => {
  const recordChangedBy = async (run: (log: AttemptLog) => Promise<void>) => {
    await recorder.runAndRecord('platform', REQUEST, run).catch(() => undefined);
    return changedRecords.at(-1);
  };

  test('is found by the state or by the id of the pending request, and may be prefetched', async () => {
    const foundByState = await recordChangedBy(async (log) => {
      log.prefetch();
      log.learn({ state: 's1' });
      await log.succeeded('signed_in', 'u1');
    });
    expect(foundByState).toEqual({ state: 's1', attempt: undefined });

    const pendingAttempt = { id: 'a1', state: 's1' };
    const foundById = await recordChangedBy(async (log) => {
      log.learn(pendingAttempt);
      await log.succeeded('signed_in', 'u1');
    });
    expect(foundById).toEqual({ state: 's1', attempt: { id: 'a1', reading: undefined } });

    const prefetched = await recordChangedBy(async (log) => {
      log.learn(pendingAttempt);
      log.prefetch();
      throw createError('not_permitted');
    });
    expect(prefetched).toEqual({ state: 's1', attempt: { id: 'a1', reading: READING } });
  });
});

test('uses the reference of the request, in lower case, as the id of a new attempt', async () => {
  const idOf = async (log: AttemptLog) => log.newId;
  expect(await recorder.runAndRecord('platform', REQUEST, idOf)).toBe('ref1');
});

describe('the outcome', () => {
  test('of a success is recorded, and its event names the user, the address and the acr of a stronger sign-in', async () => {
    await recorder.runAndRecord('platform', REQUEST, async (log) => {
      log.learn({ state: 's1', purpose: 'connect', user: ADA, trial: true, steppedUp: 'mfa' });
      await log.succeeded('connected', 'u1');
    });
    expect(addedChanges).toMatchObject([
      { outcome: 'connected', purpose: 'connect', trial: true, userId: 'u1', endedAt: NOW },
    ]);
    expect(addedChanges[0]).toHaveProperty('failure', undefined);
    expect(events).toEqual([
      {
        app: 'platform',
        outcome: 'connected',
        userId: 'u1',
        userName: 'ada@example.test',
        origin: REQUEST.origin,
        steppedUp: 'mfa',
      },
    ]);
  });

  test('of a failure is recorded with the browser and the address of the callback', async () => {
    expect(await failWith(createError('state_expired'))).toMatchObject({
      browser: 'Firefox',
      browserHash: hashOf('b1'),
      address: '192.0.2.7',
      facts: {},
    });
    const cause = providerError('refused', 'token_refused', { oauthError: 'invalid_grant' });
    await failWith(createError('code_refused', {}, cause));
    expect(events.map(({ providerError }) => providerError)).toEqual([undefined, 'invalid_grant']);
  });

  test.each([
    ['access_denied', 'refused'],
    ['not_permitted', 'refused'],
    ['step_up_refused', 'failed'],
    ['state_expired', 'failed'],
  ] as const)('of %s is %s, in the record and in the event', async (failure, outcome) => {
    expect(await failWith(createError(failure))).toMatchObject({ outcome, failure, endedAt: NOW, purpose: 'sign_in' });
    expect(events).toMatchObject([
      { app: 'platform', outcome, reason: failure, reference: 'REF1', origin: REQUEST.origin },
    ]);
  });

  test('has the user’s e-mail address or, without one, name', async () => {
    await failWith(createError('not_permitted'), { facts: { user: ADA } });
    await failWith(createError('not_permitted'), { facts: { user: { id: 'u2', name: 'Bo' } } });
    expect(events).toMatchObject([
      { userId: 'u1', userName: 'ada@example.test' },
      { userId: 'u2', userName: 'Bo' },
    ]);
    expect(addedChanges).toMatchObject([{ userId: 'u1', name: 'Ada', email: 'ada@example.test' }, { userId: 'u2' }]);

    await recorder.runAndRecord('platform', REQUEST, async (log) => {
      log.learn({ state: 's1', user: { id: 'u2', name: 'Bo' } });
      await log.succeeded('signed_in', 'u2');
    });
    expect(events.at(-1)).toMatchObject({ outcome: 'signed_in', userId: 'u2', userName: 'Bo' });
    expect(addedChanges.at(-1)).toMatchObject({ outcome: 'signed_in', userId: 'u2', name: 'Bo', endedAt: NOW });
  });

  test('of a refused ID token has its e-mail address as presumed, unless the user is known', async () => {
    const error = createTokenError({ claim: 'nonce', claims: { email: 'eve@example.test' } });
    expect(await failWith(error)).toMatchObject({ email: 'eve@example.test', presumed: true });
    const changes = await failWith(error, { facts: { user: ADA } });
    expect([changes.email, changes.presumed]).toEqual(['ada@example.test', undefined]);
  });

  test.each([
    [undefined, undefined, undefined, true],
    [undefined, undefined, 'b1', false],
    [undefined, 's1', undefined, false],
    ['connect' as const, undefined, undefined, false],
  ])(
    'R54 of a request with purpose %s, state %s and browser secret %s is unsolicited and leaves no record: %s',
    async (purpose, state, browserSecret, isUnsolicited) => {
      const run = recorder.runAndRecord(
        'unknown',
        { ...REQUEST, browserSecrets: browserSecret ? [browserSecret] : [] },
        async (log) => {
          if (purpose) log.learn({ purpose });
          if (state) log.learn({ state });
          throw createError('state_missing');
        },
      );
      await expect(run).rejects.toThrow(SignInError);
      expect(events).toMatchObject([{ outcome: 'failed' }]);
      expect(events[0]?.unsolicited).toBe(isUnsolicited ? true : undefined);
      expect(addedChanges).toHaveLength(isUnsolicited ? 0 : 1);
      if (!isUnsolicited) expect(addedChanges[0]?.purpose).toBe(purpose);
    },
  );
});

describe('a callback in another browser', () => {
  test('is recognized by the browser secrets, or without these by the name of the browser', () => {
    const isOther = (startedAttempt: object, request: Partial<RequestInfo>) =>
      isOtherBrowser(startedAttempt as SignInRecord, { reference: 'R', ...request });
    const attempt = { browserHash: hashOf('b1'), browser: 'Firefox' };
    expect(isOther(attempt, { browserSecrets: ['b1'], browser: 'Chrome' })).toBe(false);
    expect(isOther(attempt, { browserSecrets: ['b2'], browser: 'Firefox' })).toBe(true);
    expect(isOther(attempt, { browserSecrets: ['b1', 'b2'], browser: 'Chrome' })).toBe(false);
    expect(isOther(attempt, { browserSecrets: [], browser: 'Firefox' })).toBe(false);
    expect(isOther(attempt, { browser: 'Chrome' })).toBe(true);
    expect(isOther({ browser: 'Firefox' }, { browserSecrets: ['b2'], browser: 'Firefox' })).toBe(false);
  });

  test('is not recognized if the record of the start is missing or unavailable', async () => {
    expect(await recorder.findByState('s1')).toBeUndefined();
    storedRecord = Promise.reject(new Error('the storage is away'));
    expect(await recorder.findByState('s1')).toBeUndefined();
  });
});
