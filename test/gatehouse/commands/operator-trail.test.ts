/** R88: changes by an operator are audited before they are made, and a second time if they fail. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { applyAudited } from '../../../src/gatehouse/commands/apply-app-file.ts';
import { auditedByOperator, operatorTrail } from '../../../src/gatehouse/commands/operator-trail.ts';
import { AppError } from '../../../src/shared/errors.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { PLATFORM } from '../../support/apps.ts';

let directory: string;
let store: Store;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-operator-'));
  store = await createSqliteStore({ directory });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const ENTRIES = [
  { event: 'connected_app.created', target: { kind: 'connected_app', id: 'one' } },
  { event: 'connected_app.changed', target: { kind: 'connected_app', id: 'two' } },
] as const;

const readTrail = async () => {
  const entries = await Array.fromAsync(operatorTrail(store).export());
  return entries.map(({ event, target, outcome, code, actor }) => [event, target?.id, outcome, code, actor.kind]);
};

test('R88 writes the entry of each change before it is made', async () => {
  let trailAtChange: unknown;
  const change = async () => {
    trailAtChange = await readTrail();
    return 'done';
  };
  expect(await auditedByOperator(store, ENTRIES, change)).toBe('done');
  const entries = [
    ['connected_app.created', 'one', undefined, undefined, 'operator'],
    ['connected_app.changed', 'two', undefined, undefined, 'operator'],
  ];
  expect(trailAtChange).toEqual(entries);
  expect(await readTrail()).toEqual(entries);
});

test.each([
  ['unknown', 'storage_unavailable', new AppError('storage_unavailable', { detail: 'The disk is full.' })],
  ['not_done', 'version_conflict', new AppError('version_conflict')],
  ['not_done', 'internal', new TypeError('a fault of ours')],
])('R88 a failed command writes a second entry for each change: %s, %s', async (outcome, code, error) => {
  await expect(auditedByOperator(store, ENTRIES, () => Promise.reject(error))).rejects.toBe(error);

  const secondEntries = (await readTrail()).slice(2);
  const outcomes = secondEntries.map(([, ...entry]) => entry.slice(0, 3));
  expect(outcomes.toSorted()).toEqual([
    ['one', outcome, code],
    ['two', outcome, code],
  ]);
});

test('R88 writes a second entry only for the app whose change was reverted', async () => {
  const apps = ['one', 'two'].map((id) => ({ app: { ...PLATFORM, id }, action: 'change', changed: ['issuer'] }));
  await expect(applyAudited(store, apps as never, async () => ['two'])).rejects.toMatchObject({
    code: 'version_conflict',
    detail: expect.stringMatching(
      /hosts of two, but a user has connected in the meantime.* All other apps were applied/,
    ),
  });
  expect((await readTrail()).map(([, id, outcome, code]) => [id, outcome, code])).toEqual([
    ['one', undefined, undefined],
    ['two', undefined, undefined],
    ['two', 'not_done', 'version_conflict'],
  ]);
});
