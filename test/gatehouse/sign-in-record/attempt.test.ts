/** What each request changes in the record of a sign-in attempt, and which lists contain the record. */
import { describe, expect, test } from 'vitest';
import {
  folded,
  listsOf,
  listWrites,
  type SignInChanges,
  type SignInRecord,
  withRequest,
} from '../../../src/gatehouse/sign-in-record/attempt.ts';
import type { Step } from '../../../src/gatehouse/sign-in-record/steps.ts';
import { keys } from '../../../src/shared/storage/keys.ts';

const START = 1_800_000_000_000;
const step = (name: Step['name']): Step => ({ name, at: START, ok: true });

const recordWith = (changes: Partial<SignInRecord> = {}): SignInRecord => ({
  id: 'r1',
  app: 'platform',
  purpose: 'sign_in',
  startedAt: START,
  facts: {},
  steps: [step('started')],
  references: ['R1'],
  ...changes,
});
const extendRecord = (changes: Partial<SignInChanges>, record = recordWith()) =>
  withRequest(record, { steps: [], reference: 'R2', ...changes });

describe('a further request', () => {
  test('adds its steps, its reference and its facts to the record', () => {
    const record = recordWith({ facts: { status: 200, redirectUri: 'https://gatehouse.test/' } });
    const next = extendRecord({ steps: [step('came_back')], facts: { status: 503 } }, record);
    expect(next.steps.map(({ name }) => name)).toEqual(['started', 'came_back']);
    expect(next.references).toEqual(['R1', 'R2']);
    expect(next.facts).toEqual({ status: 503, redirectUri: 'https://gatehouse.test/' });
  });

  test('repeats no reference, and adds nothing beyond 60 steps and 10 references', () => {
    expect(extendRecord({ reference: 'R1' }).references).toEqual(['R1']);
    let record = recordWith();
    for (let n = 2; n < 40; n += 1)
      record = extendRecord({ reference: `R${n}`, steps: [step('came_back'), step('state')] }, record);
    expect(record.references).toEqual(Array.from({ length: 10 }, (_one, n) => `R${n + 1}`));
    expect([record.steps.length, record.steps[0]?.name]).toEqual([60, 'started']);
  });

  test('changes no field for which it has no value, and no field of the start', () => {
    const record = recordWith({
      trial: true,
      endedAt: START,
      address: '192.0.2.1',
      browser: 'Firefox',
      browserHash: 'h1',
    });
    const elsewhere = { startedAt: START + 5, address: '192.0.2.2', browser: 'Chrome', browserHash: 'h2' };
    const unknown = { trial: undefined, endedAt: undefined, name: undefined };
    expect(extendRecord({ ...unknown, ...elsewhere }, record)).toEqual({
      ...record,
      references: ['R1', 'R2'],
    });
    expect(extendRecord({ app: 'second', purpose: 'connect', ...elsewhere })).toMatchObject({
      app: 'second',
      purpose: 'connect',
      startedAt: START,
      address: '192.0.2.2',
      browser: 'Chrome',
      browserHash: 'h2',
    });
  });
});

describe('the end of an attempt', () => {
  const failed = { outcome: 'failed', failure: 'state_expired', endedAt: START + 2 } as const;
  const refused = { outcome: 'refused', failure: 'access_denied', endedAt: START + 1 } as const;
  const outcomeOf = ({ outcome, failure }: SignInRecord) => [outcome, failure];

  test('may be a success after another browser opened the callback in vain', () => {
    const succeeded = extendRecord(
      { outcome: 'signed_in', failure: undefined, endedAt: START + 3 },
      recordWith(refused),
    );
    expect(outcomeOf(succeeded)).toEqual(['signed_in', undefined]);
    expect(outcomeOf(extendRecord({}, succeeded))).toEqual(['signed_in', undefined]);
  });

  test('is the last one, even after a request without an end', () => {
    const twice = extendRecord(failed, recordWith(refused));
    expect(outcomeOf(twice)).toEqual(['failed', 'state_expired']);
    expect(outcomeOf(extendRecord({}, twice))).toEqual(['failed', 'state_expired']);
    expect(outcomeOf(extendRecord({}))).toEqual([undefined, undefined]);
  });
});

describe('the user of an attempt', () => {
  const ada = { userId: 'u1', name: 'Ada', email: 'ada@example.test' };
  const unprovenUser = { email: 'eve@example.test', presumed: true };
  const userOf = ({ userId, name, email, presumed: isPresumed }: SignInRecord) => ({
    userId,
    name,
    email,
    presumed: isPresumed,
  });

  test('is unknown until a request names one', () => {
    expect(userOf(extendRecord({}))).toEqual({});
    expect(userOf(extendRecord(ada))).toEqual(ada);
  });

  test('stays if a later request names none, or only an unproven address', () => {
    expect(userOf(extendRecord({}, recordWith(ada)))).toEqual(ada);
    expect(userOf(extendRecord(unprovenUser, recordWith(ada)))).toEqual(ada);
  });

  test('replaces an unproven address, which stays until then', () => {
    expect(userOf(extendRecord({}, recordWith(unprovenUser)))).toEqual(unprovenUser);
    expect(userOf(extendRecord(ada, recordWith(unprovenUser)))).toEqual(ada);
  });

  test('is the last verified one, and the same user keeps an earlier name and address', () => {
    expect(userOf(extendRecord({ userId: 'u1' }, recordWith(ada)))).toEqual(ada);
    expect(userOf(extendRecord({ userId: 'u2', name: 'Ben', email: 'ben@example.test' }, recordWith(ada)))).toEqual({
      userId: 'u2',
      name: 'Ben',
      email: 'ben@example.test',
    });
  });
});

describe('the lists', () => {
  const [all, open, failed] = [keys.signIns('all'), keys.signIns('open'), keys.signIns('failed')];
  const of = (user: string) => keys.signIns('of', user);
  const additions = (...indexes: string[]) => indexes.map((index) => ({ index, add: 'r1', score: START }));

  test('of a user are keyed by id and by e-mail address, in lower case and trimmed', () => {
    expect(folded(' Ada@Example.TEST ')).toBe('ada@example.test');
    const record = recordWith({ userId: 'u1', email: 'Ada@example.test' });
    expect(listsOf(record)).toEqual([all, open, failed, of('u1'), of('ada@example.test')]);
    expect(listsOf(recordWith({ email: ' ' }))).toEqual([all, open, failed]);
  });

  test('add a new attempt to all and open attempts', () => {
    expect(listWrites(recordWith(), undefined)).toEqual(additions(all, open));
  });

  test('move a failed attempt from the open ones to the failed ones and those of its user', () => {
    const ended = { endedAt: START + 1, failure: 'not_permitted', userId: 'u1' } as const;
    expect(listWrites(recordWith(ended), recordWith())).toEqual([
      ...additions(failed, of('u1')),
      { index: open, remove: 'r1' },
    ]);
  });

  test('remove an attempt that finally succeeds from the failed ones, without other writes', () => {
    const ended = { endedAt: START + 1, userId: 'u1' };
    const before = recordWith({ ...ended, failure: 'access_denied' });
    expect(listWrites(recordWith(ended), before)).toEqual([{ index: failed, remove: 'r1' }]);
    expect(listWrites(before, before)).toEqual([]);
  });
});
