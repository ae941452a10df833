/** R88 an audited change: its entry comes first, and a second one says so if the change then fails. */
import { expect, test } from 'vitest';
import { audited } from '../../src/admin/change.ts';
import { AppError } from '../../src/errors.ts';

const req = {
  context: { adminToken: { id: 't1', name: 'terraform' }, address: '192.0.2.7', id: 'request-1' },
} as never;
const facts = { event: 'webhook.changed', target: { kind: 'webhook', id: 'wh1' } } as const;
const failure = (error: unknown) => async () => {
  throw error;
};

function trail(failsFrom = Number.POSITIVE_INFINITY) {
  const entries: object[] = [];
  const append = async (entry: object) => {
    if (entries.length >= failsFrom) throw new Error('The trail cannot be written.');
    entries.push(entry);
  };
  return { entries, append: append as never };
}

test('has one entry, with the actor, written before the change', async () => {
  const { entries, append } = trail();
  const done = await audited({ append }, req, facts, async () => entries.length);
  expect(done).toBe(1);
  expect(entries).toMatchObject([{ ...facts, actor: { kind: 'admin_token', id: 't1', name: 'terraform' } }]);
});

test.each([
  ['not_done: version_conflict', new AppError('version_conflict')],
  ['not_done: internal', new TypeError('a fault of ours')],
])('that fails has a second entry: %s', async (outcome, error) => {
  const { entries, append } = trail();
  await expect(audited({ append }, req, facts, failure(error))).rejects.toBe(error);
  expect(entries).toMatchObject([facts, { ...facts, outcome }]);
  expect(entries[0]).not.toHaveProperty('outcome');
});

test('is not made if the trail cannot be written, and keeps its own error if the second entry cannot', async () => {
  let made = false;
  const change = async () => {
    made = true;
  };
  await expect(audited(trail(0), req, facts, change)).rejects.toThrow('The trail cannot be written.');
  expect(made).toBe(false);
  const error = new AppError('not_found');
  await expect(audited(trail(1), req, facts, failure(error))).rejects.toBe(error);
});
