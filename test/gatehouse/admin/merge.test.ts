/** The merge of a record that two administrators change: nothing that only one of them changed is lost. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  changedMembers,
  FINGERPRINT,
  fingerprintOf,
  type Members,
  mergeMembers,
} from '../../../src/gatehouse/admin/merge.ts';

const merge = (before: Members, current: Members, form: Members) => mergeMembers(fingerprintOf(before), current, form);
const RECORD = { name: 'a', note: undefined, isOn: false, urls: ['x', 'y'], routes: [{ name: 'r', path: '/' }] };

describe('R146 a member', () => {
  test.each<[string, Members, Members, Members, string[], unknown[]]>([
    ['that neither changed stays', {}, {}, {}, [], []],
    ['that only the form changed has its value', {}, { name: 'b' }, { name: 'b' }, [], []],
    ['that only others changed keeps their value', { name: 'c' }, {}, { name: 'c' }, ['name'], []],
    ['that others have set keeps their value', { note: 'n' }, {}, { note: 'n' }, ['note'], []],
    ['that others have emptied stays empty', { name: undefined }, {}, { name: undefined }, ['name'], []],
    ['that both changed alike is no conflict', { isOn: true }, { isOn: true }, { isOn: true }, [], []],
    [
      'that both changed is a conflict',
      { name: 'c' },
      { name: 'b' },
      { name: 'b' },
      [],
      [{ member: 'name', theirs: 'c' }],
    ],
    [
      'that the form empties, and others changed, is a conflict',
      { name: 'c' },
      { name: undefined },
      { name: undefined },
      [],
      [{ member: 'name', theirs: 'c' }],
    ],
  ])('%s', (_name, theirs, own, changed, kept, conflicts) => {
    const result = merge(RECORD, { ...RECORD, ...theirs }, { ...RECORD, ...own });
    expect(result).toEqual({ merged: { ...RECORD, ...changed }, kept, conflicts });
  });

  test('that the form lacks keeps its current value', () => {
    const { isOn: _, ...form } = RECORD;
    const result = merge(RECORD, { ...RECORD, isOn: true }, { ...form, name: 'b' });
    expect(result).toEqual({ merged: { ...RECORD, name: 'b', isOn: true }, kept: ['isOn'], conflicts: [] });
  });

  test('is compared whatever the order of its own members', () => {
    const before = { claim: { name: 'groups', values: ['a'] } };
    const reordered = { claim: { values: ['a'], name: 'groups' } };
    expect(merge(before, { claim: 'everyone' }, reordered)).toMatchObject({ kept: ['claim'], conflicts: [] });
  });
});

describe('R146 a list', () => {
  const mergeUrls = (before: string[], theirs: string[] | string, own: string[]) =>
    merge({ urls: before }, { urls: theirs }, { urls: own });

  test('has the entries that either added, without those that either removed', () => {
    const { merged, kept, conflicts } = mergeUrls(['a', 'b', 'c'], ['b', 'c', 'theirs'], ['a', 'c', 'own']);
    expect(merged).toEqual({ urls: ['c', 'theirs', 'own'] });
    expect([kept, conflicts]).toEqual([['urls'], []]);
  });

  test('that is empty, or no list, in one of them is a conflict: it can allow everything', () => {
    const conflictOf = (theirs: unknown) => [{ member: 'urls', theirs }];
    expect(mergeUrls(['a'], [], ['a', 'b']).conflicts).toEqual(conflictOf([]));
    expect(mergeUrls(['a'], ['a', 'b'], []).conflicts).toEqual(conflictOf(['a', 'b']));
    expect(mergeUrls(['a'], 'all', ['a', 'b']).conflicts).toEqual(conflictOf('all'));
    // Each has removed the entry that the other kept.
    expect(mergeUrls(['a', 'b'], ['a'], ['b'])).toEqual({
      ...{ merged: { urls: ['b'] }, kept: [], conflicts: conflictOf(['a']) },
    });
  });

  const route = (name: string, path: string) => ({ name, path });
  const mergeRoutes = (before: object[], theirs: object[], own: object[]) =>
    merge({ routes: before }, { routes: theirs }, { routes: own });

  test('of named entries keeps the changes of different entries', () => {
    const before = [route('a', '/1'), route('b', '/1')];
    const result = mergeRoutes(
      before,
      [route('a', '/2'), route('b', '/1'), route('c', '/1')],
      [route('a', '/1'), route('b', '/3')],
    );
    expect(result).toEqual({
      merged: { routes: [route('a', '/2'), route('b', '/3'), route('c', '/1')] },
      ...{ kept: ['routes'], conflicts: [] },
    });
  });

  test('has a conflict at the position of each entry that both changed', () => {
    const before = [route('a', '/1'), route('b', '/1'), route('c', '/1'), route('d', '/1')];
    const theirs = [route('a', '/1'), route('b', '/2'), route('d', '/2')];
    const own = [route('b', '/3'), route('c', '/3'), route('a', '/9')];
    expect(mergeRoutes(before, theirs, own)).toEqual({
      merged: { routes: [route('a', '/9'), route('b', '/3'), route('c', '/3')] },
      kept: [],
      conflicts: [
        { member: 'routes', entry: { name: 'b', position: 1 }, theirs: route('b', '/2') },
        { member: 'routes', entry: { name: 'd', position: undefined }, theirs: route('d', '/2') },
        { member: 'routes', entry: { name: 'c', position: 2 }, theirs: undefined },
      ],
    });
  });
});

describe('R146 whatever two administrators change', () => {
  const text = fc.constantFrom('a', 'b', 'c', undefined);
  const list = fc.uniqueArray(fc.constantFrom('p', 'q', 'r', 's', 't'), { maxLength: 5 });
  const routes = fc.uniqueArray(
    fc.record({ name: fc.constantFrom('x', 'y', 'z'), path: fc.constantFrom('/1', '/2') }),
    {
      selector: ({ name }) => name,
    },
  );
  const record = fc.record({ text, other: text, list, routes });
  const entriesOf = (value: unknown) => (Array.isArray(value) ? value.map((entry) => JSON.stringify(entry)) : []);

  test('no change of one of them is lost without a conflict', () => {
    fc.assert(
      fc.property(record, record, record, (before, current, form) => {
        const { merged, conflicts } = merge(before, current, form);
        for (const member of Object.keys(before) as (keyof typeof before)[]) {
          if (conflicts.some((conflict) => conflict.member === member)) continue;
          const [was, theirs, own, result] = [before, current, form, merged].map((each) => each[member]);
          const isList = Array.isArray(was);
          if (!isList && own !== was) expect(result).toBe(own);
          if (!isList && theirs !== was) expect(result).toBe(theirs);
          for (const changed of isList ? [theirs, own] : []) {
            for (const entry of entriesOf(changed)) {
              if (!entriesOf(was).includes(entry)) expect(entriesOf(result)).toContain(entry);
            }
            for (const entry of entriesOf(was)) {
              if (!entriesOf(changed).includes(entry)) expect(entriesOf(result)).not.toContain(entry);
            }
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  test('without a change by others, the form is what is saved', () => {
    fc.assert(
      fc.property(record, record, (before, form) => {
        expect(merge(before, before, form)).toEqual({ merged: form, kept: [], conflicts: [] });
      }),
    );
  });

  test('a form that changes nothing changes nothing', () => {
    fc.assert(
      fc.property(record, record, (before, current) => {
        const { merged, kept, conflicts } = merge(before, current, before);
        expect([merged, conflicts]).toEqual([current, []]);
        expect(kept.toSorted()).toEqual(changedMembers(before, current).toSorted());
      }),
    );
  });

  test('what was shown as a conflict is saved the next time', () => {
    fc.assert(
      fc.property(record, record, record, (before, current, form) => {
        const { merged } = merge(before, current, form);
        expect(merge(current, current, merged)).toEqual({ merged, kept: [], conflicts: [] });
      }),
    );
  });
});

test('a fingerprint is short, and has the form that is accepted from a browser', () => {
  const fingerprint = fingerprintOf(RECORD);
  expect(fingerprint).toMatch(FINGERPRINT);
  expect(fingerprint).toMatch(/^name=[\w-]{6} note= isOn=[\w-]{6} urls=([\w-]{6}\.){2} routes=[\w-]{12}\.$/);
  expect(fingerprintOf(RECORD)).toBe(fingerprint);
  for (const invalid of ['', 'name', 'name=a=b', 'name=<b>', 'a=b  c=d']) expect(invalid).not.toMatch(FINGERPRINT);
});
