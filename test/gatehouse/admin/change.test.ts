/** R88 audited changes: the entry is written first, and a second entry reports a failure. */
import { expect, test } from 'vitest';
import { audited } from '../../../src/gatehouse/admin/change.ts';
import type { AuditEntry } from '../../../src/gatehouse/audit/kinds.ts';
import { createAuditNotes } from '../../../src/gatehouse/audit/notes.ts';
import { AppError } from '../../../src/shared/errors.ts';

const req = {
  context: { adminToken: { id: 't1', name: 'terraform' }, address: '192.0.2.7', id: 'request-1' },
} as never;
const facts = { event: 'webhook.changed', target: { kind: 'webhook', id: 'wh1' } } as const;
/** A change that fails. */
const failWith = (error: unknown) => async () => {
  throw error;
};

/** @param isFailing tells whether the nth call of `append`, counted from 1, fails */
function openAudit(isFailing: (call: number) => boolean = () => false) {
  const entries: AuditEntry[] = [];
  const lostCounts: number[] = [];
  let calls = 0;
  const append = async (entry: AuditEntry) => {
    calls += 1;
    if (isFailing(calls)) throw new Error('The trail cannot be written.');
    entries.push(entry);
  };
  const appendAll = async (records: readonly { entry: AuditEntry }[]) => {
    for (const { entry } of records) await append(entry);
  };
  const { note, settle } = createAuditNotes({
    ...{ trail: { appendAll }, clock: Date.now },
    onLost: (count) => void lostCounts.push(count),
  });
  return { audit: { trail: { append }, note }, entries, lostCounts, settle };
}

test('has one entry, with the actor, written before the change', async () => {
  const { audit, entries, settle } = openAudit();
  const entriesAtChange = await audited(audit, req, facts, async () => entries.length);
  expect(entriesAtChange).toBe(1);
  await settle();
  expect(entries).toMatchObject([{ ...facts, actor: { kind: 'admin_token', id: 't1', name: 'terraform' } }]);
});

test.each([
  ['version_conflict', new AppError('version_conflict')],
  ['internal', new TypeError('a fault of ours')],
])('has a second entry if it fails: %s', async (code, error) => {
  const { audit, entries, settle } = openAudit();
  await expect(audited(audit, req, facts, failWith(error))).rejects.toBe(error);
  await settle();
  expect(entries).toMatchObject([facts, { ...facts, outcome: 'not_done', code }]);
  expect(entries[0]).not.toHaveProperty('outcome');
});

test('is not made if the audit trail cannot be written', async () => {
  let isMade = false;
  const change = async () => {
    isMade = true;
  };
  await expect(audited(openAudit(() => true).audit, req, facts, change)).rejects.toThrow(
    'The trail cannot be written.',
  );
  expect(isMade).toBe(false);
});

test('R88 has an unknown result if the storage fails, in the response and later in the audit trail', async () => {
  const { audit, entries, lostCounts, settle } = openAudit((call) => call === 2 || call === 3);
  const error = new AppError('storage_unavailable', { logDetail: 'No response in time', retryAfterSeconds: 7 });
  await expect(audited(audit, req, facts, failWith(error))).rejects.toMatchObject({
    ...{ code: 'storage_unavailable', logDetail: 'No response in time', retryAfterSeconds: 7, cause: error },
    detail: expect.stringContaining('may have been made'),
  });
  await expect
    .poll(() => entries, { timeout: 3_000 })
    .toMatchObject([facts, { outcome: 'unknown', code: 'storage_unavailable' }]);
  await settle();
  expect(lostCounts).toEqual([]);
});
