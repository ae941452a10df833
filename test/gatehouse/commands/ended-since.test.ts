/** Commands from an audit export: the entries that need one, refused files, and no injection of text into commands. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { AUDIT_EVENTS } from '../../../src/gatehouse/audit/kinds.ts';
import { endedAgain, type RestoredStorage, readEnded } from '../../../src/gatehouse/commands/ended-since.ts';
import type { Session } from '../../../src/shared/sessions/session.ts';
import { SealError } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { shellQuoted } from '../../../src/shared/text.ts';
import { anyText } from '../../support/any-text.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
import { runCommand } from '../../support/terminal.ts';

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-ended-'));
const file = join(folder, 'audit.ndjson');
afterAll(() => rmSync(folder, { recursive: true }));

const SINCE = Date.parse('2026-11-21T03:15:00Z');
const LATER = '2026-11-21T04:00:00.000Z';
const ID = 'AAAAAAAAAAA';

/** What a test sets of an audit entry. */
interface EntryParts {
  event: string;
  target?: string;
  at?: string;
  [member: string]: unknown;
}

let entryCount = 0;
function entryLine({ event, target, at = LATER, ...others }: EntryParts): string {
  entryCount += 1;
  const [kind] = event.split('.');
  const actor = { kind: 'administrator', id: 'uadmin' };
  return JSON.stringify({
    id: String(entryCount),
    at,
    event,
    actor,
    ...(target && { target: { kind, id: target } }),
    ...others,
  });
}

/** A restored storage that has every record that an entry names, whatever its id. */
const storageWithEverything = (app: object = { id: 'files', name: 'Files' }): RestoredStorage => ({
  store: {
    get: async (key) => ({ value: key.startsWith('user:') ? '{}' : 'sealed', version: 7 }),
    count: async () => 1,
  },
  sealedJson: { open: async <T>() => ({ app }) as T },
  sessions: { count: async () => 1, list: async () => [{ ref: 'ref' }, { ref: 'other' }] as Session[] },
});
const emptyStorage: RestoredStorage = {
  store: { get: async () => undefined, count: async () => 0 },
  sealedJson: { open: async () => undefined },
  sessions: { count: async () => 0, list: async () => [] },
};

/** Returns the lines that end again what these entries ended. */
async function linesOf(exported: readonly EntryParts[], restored = storageWithEverything()): Promise<string[]> {
  writeFileSync(file, exported.map((parts) => `${entryLine(parts)}\n`).join(''));
  return (await endedAgain(await readEnded(file, SINCE), restored)).map(({ line }) => line);
}

const curl = (method: string, path: string) =>
  `curl -fsS -X ${method} -H "Authorization: Bearer $ADMIN_TOKEN" "$GATEHOUSE/admin/api/${path}"`;

const ENDINGS: [entry: EntryParts, line: string][] = [
  [{ event: 'user.deleted', target: 'u1' }, curl('DELETE', 'users/u1')],
  [{ event: 'user.deletion_started', target: 'u1' }, curl('DELETE', 'users/u1')],
  [{ event: 'user.disabled', target: 'u1' }, curl('POST', 'users/u1/disable')],
  [{ event: 'session.signed_out', target: 'u1' }, curl('POST', 'users/u1/sign-out')],
  [{ event: 'session.ended_everywhere', target: 'u1' }, curl('POST', 'users/u1/sign-out')],
  [{ event: 'session.ended_by_provider', target: 'files', userId: 'u1' }, curl('POST', 'users/u1/sign-out')],
  [{ event: 'session.ended', target: 'u1.ref', userId: 'u1' }, curl('DELETE', 'sessions/u1.ref')],
  [{ event: 'session.ended', target: 'ref', userId: 'u1' }, curl('DELETE', 'sessions/u1.ref')],
  [{ event: 'session.all_ended' }, 'npm run -s gatehouse -- sessions end --all'],
  [{ event: 'connection.removed', target: 'u1/files', userId: 'u1' }, curl('DELETE', 'connections/u1.files')],
  [{ event: 'connection.all_removed', target: 'files' }, curl('POST', 'connected-apps/files/disconnect-everyone')],
  [{ event: 'connect_link.revoked', target: ID }, curl('DELETE', `connect-links/${ID}`)],
  [{ event: 'connect_link.used', target: ID }, curl('DELETE', `connect-links/${ID}`)],
  [{ event: 'relay_token.revoked', target: ID }, curl('DELETE', `relay-tokens/${ID}`)],
  [{ event: 'service_account.deleted', target: ID }, curl('DELETE', `service-accounts/${ID}`)],
  [{ event: 'webhook.deleted', target: `wh_${ID}` }, curl('DELETE', `webhooks/wh_${ID}`)],
  [{ event: 'admin_token.revoked', target: ID }, `npm run -s gatehouse -- admin-tokens revoke ${ID}`],
  [{ event: 'connected_app.deleted', target: 'files' }, curl('DELETE', 'connected-apps/files')],
  [
    { event: 'connected_app.disabled', target: 'files' },
    `${curl('PUT', 'connected-apps/files')} -H 'Content-Type: application/json' -d '{"id":"files","name":"Files","disabled":true,"version":7}'`,
  ],
];

test.each(ENDINGS)(
  '%o has its line if it is later than the backup and the record exists again',
  async (entry, line) => {
    expect(await linesOf([entry])).toEqual([line]);
    expect(await linesOf([{ ...entry, at: '2026-11-21T03:14:59.999Z' }])).toEqual([]);
    expect(await linesOf([entry], emptyStorage)).toEqual([]);
  },
);

test('every event that ends a record is tested', () => {
  const names = Object.keys(AUDIT_EVENTS).filter((event) =>
    /ended|deleted|removed|revoked|disabled|signed_out/.test(event),
  );
  const testedEvents = new Set(ENDINGS.map(([{ event }]) => event));
  expect(names.filter((event) => !testedEvents.has(event))).toEqual([]);
});

test('lines are in the order of their time, one for each record', async () => {
  const entries = [
    { event: 'relay_token.revoked', target: ID, at: '2026-11-21T06:00:00.000Z' },
    { event: 'webhook.deleted', target: 'wh_1', at: '2026-11-21T05:00:00.000Z' },
    { event: 'session.signed_out', target: 'u1', at: '2026-11-21T05:30:00.000Z' },
    { event: 'session.signed_out', target: 'u1', at: '2026-11-21T07:00:00.000Z' },
  ];
  expect(await linesOf(entries)).toEqual([
    curl('DELETE', 'webhooks/wh_1'),
    curl('DELETE', `relay-tokens/${ID}`),
    curl('POST', 'users/u1/sign-out'),
  ]);
});

test('a failed end has no line, but a successful one before or after it has', async () => {
  const revoked = { event: 'relay_token.revoked', target: ID };
  const failedAttempt = [
    { ...revoked, requestId: 'r2' },
    { ...revoked, requestId: 'r2', outcome: 'not_done', code: 'version_conflict' },
  ];
  expect(await linesOf(failedAttempt)).toEqual([]);
  expect(await linesOf([{ ...revoked, requestId: 'r1' }, ...failedAttempt])).toHaveLength(1);
  expect(await linesOf([...failedAttempt, { ...revoked, requestId: 'r3' }])).toHaveLength(1);
});

test('if the result is unknown, an end has its line, and so has a user who may have been enabled again', async () => {
  const unknown = { outcome: 'unknown', code: 'storage_unavailable' };
  const revoked = { event: 'relay_token.revoked', target: ID, requestId: 'r1' };
  expect(await linesOf([revoked, { ...revoked, ...unknown }])).toHaveLength(1);
  const disabled = { event: 'user.disabled', target: 'u1', requestId: 'r2' };
  const enabled = { event: 'user.enabled', target: 'u1', requestId: 'r3' };
  expect(await linesOf([disabled, enabled, { ...enabled, ...unknown }])).toHaveLength(1);
});

test.each([
  ['user', 'u1'],
  ['connected_app', 'files'],
])('a disabled %s has no line if it was enabled again, unless the enabling failed', async (kind, target) => {
  const disabled = { event: `${kind}.disabled`, target, requestId: 'r1' };
  const enabled = { event: `${kind}.enabled`, target, requestId: 'r2' };
  expect(await linesOf([disabled, enabled])).toEqual([]);
  expect(await linesOf([disabled, enabled, { ...disabled, requestId: 'r3' }])).toHaveLength(1);
  expect(await linesOf([disabled, enabled, { ...enabled, outcome: 'not_done', code: 'internal' }])).toHaveLength(1);
});

test('an app that the backup has disabled, or that no key opens, has no line', async () => {
  const entries = [{ event: 'connected_app.disabled', target: 'files' }];
  expect(await linesOf(entries, storageWithEverything({ id: 'files', disabled: true }))).toEqual([]);
  const sealedJson = createSealedJson({
    ...makeSealer(),
    open: () => Promise.reject(new SealError('unknown_key')),
  });
  expect(await linesOf(entries, { ...storageWithEverything(), sealedJson })).toEqual([]);
});

test('a line that ends several records replaces their lines', async () => {
  const singleEnds = [
    { event: 'connection.removed', target: 'u1/files', userId: 'u1' },
    { event: 'session.ended', target: 'u1.ref', userId: 'u1' },
  ];
  expect(await linesOf([...singleEnds, { event: 'user.deleted', target: 'u1' }])).toEqual([curl('DELETE', 'users/u1')]);
  expect(await linesOf([...singleEnds, { event: 'user.deleted', target: 'u2' }])).toHaveLength(3);
  expect(await linesOf([...singleEnds, { event: 'session.ended_everywhere', target: 'u1' }])).not.toContain(
    curl('DELETE', 'sessions/u1.ref'),
  );
  expect(await linesOf([...singleEnds, { event: 'session.all_ended' }])).toHaveLength(2);
  expect(await linesOf([...singleEnds, { event: 'connection.all_removed', target: 'files' }])).not.toContain(
    curl('DELETE', 'connections/u1.files'),
  );
});

test.each([
  ['', 'it has no entry'],
  ['\n\n', 'it has no entry'],
  ['CREATE TABLE x;\n', 'line 1 is not an entry'],
  ['{"format":"gatehouse-backup","version":1,"createdAt":"2026-11-21T03:15:00Z"}\n', 'line 1 is not an entry'],
  [`${entryLine({ event: 'user.deleted', target: 'u1' })}\n{"at":"yesterday"}\n`, 'line 2 is not an entry'],
  [entryLine({ event: 'user.deleted', target: 'secret' }).slice(0, -20), 'line 1 is not an entry'],
])('refuses a file that is not an export: %j', async (text, why) => {
  writeFileSync(file, text);
  await expect(readEnded(file, SINCE)).rejects.toMatchObject({
    code: 'invalid_request',
    detail: `${file} is not an export of the audit trail: ${why}. Create one with: npm run -s gatehouse -- audit export`,
  });
});

test('refuses a file that does not exist', async () => {
  const missing = join(folder, 'missing');
  await expect(readEnded(missing, SINCE)).rejects.toMatchObject({
    detail: expect.stringContaining(`${missing}: there is no such file`),
  });
  expect((await runCommand(['restore', missing, '--audit', file], {})).status).toBe(78);
});

/**
 * Runs the lines in a shell in which `curl` and `npm` only record their arguments.
 * @returns the words of each command that ran
 */
function runRecorded(lines: readonly string[]): string[][] {
  const bin = mkdtempSync(join(folder, 'bin-'));
  const recordFile = join(bin, 'record');
  for (const name of ['curl', 'npm'])
    writeFileSync(join(bin, name), `#!/bin/sh\nprintf '%s\\0' ${name} "$@" "" >> '${recordFile}'\n`, { mode: 0o755 });
  writeFileSync(recordFile, '');
  const env = { PATH: bin, GATEHOUSE: 'https://gatehouse.example', ADMIN_TOKEN: 'gtha_x' };
  const output = execFileSync('/bin/sh', [], { input: lines.join('\n'), env, cwd: bin, stdio: 'pipe' });
  expect(output.toString()).toBe('');
  // A NUL ends each word, and a second one ends the command.
  const text = execFileSync('/bin/cat', [recordFile], { maxBuffer: 2 ** 26 }).toString();
  const commands = text.split('\0\0').slice(0, -1);
  return commands.map((command) => command.split('\0'));
}

const hostileText = fc.oneof(
  anyText(),
  fc.constantFrom(
    '$(touch x)',
    '`touch x`',
    "'; touch x; '",
    'a\ntouch x\n',
    '-rf',
    '../users/u2',
    '..',
    'a"b',
    '\0',
    '$ADMIN_TOKEN',
  ),
);

test('a line runs only curl or npm, with a path of the API, whatever the export contains', async () => {
  const anyEntry = fc.record(
    {
      event: fc.constantFrom(...ENDINGS.map(([{ event }]) => event)),
      target: fc.oneof(
        hostileText,
        fc.tuple(hostileText, fc.constantFrom('/', '.'), hostileText).map((parts) => parts.join('')),
      ),
      userId: hostileText,
      requestId: hostileText,
    },
    { requiredKeys: ['event', 'target'] },
  );
  let commandCount = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(anyEntry, { minLength: 50, maxLength: 100 }), async (entries) => {
      const lines = await linesOf(entries as EntryParts[]);
      for (const line of lines) expect(line).not.toMatch(/[\n\r]/);

      const commands = runRecorded(lines);
      expect(commands).toHaveLength(lines.length);
      commandCount += commands.length;
      for (const [program, ...args] of commands) {
        if (program === 'npm')
          expect(args.join(' ')).toMatch(/^run -s gatehouse -- (sessions end --all|admin-tokens revoke \w{11})$/);
        else expect(args[5]).toMatch(/^https:\/\/gatehouse\.example\/admin\/api\/[a-z-]+(\/[\w-]+(\.[\w-]+)?)+$/);
        if (program === 'curl') expect(args.slice(0, 2)).toEqual(['-fsS', '-X']);
      }
    }),
    { numRuns: 8 },
  );
  expect(commandCount).toBeGreaterThan(8);
});

test('the JSON of a registration is one word of the shell', () => {
  fc.assert(
    fc.property(
      fc.array(
        anyText().map((text) => text.replaceAll('\0', '')),
        { minLength: 20 },
      ),
      (texts) => {
        const commands = runRecorded(texts.map((text) => `curl x${shellQuoted(text)}`));
        expect(commands).toEqual(texts.map((text) => ['curl', `x${text}`]));
      },
    ),
    { numRuns: 8 },
  );
});
