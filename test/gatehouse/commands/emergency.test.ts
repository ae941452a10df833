/** Emergency commands while Gatehouse runs: list and revoke admin tokens, and sign all users out. */
import type { Command } from 'commander';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createProgram } from '../../../src/gatehouse/commands/program.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { createAdminToken, runCommand } from '../../support/terminal.ts';
import { until } from '../../support/until.ts';

test('every command takes --json', async () => {
  const nowhere = { source: { env: {}, readFile: () => '' }, out: process.stdout, err: process.stderr };
  const lowestCommands = (command: Command): Command[] =>
    command.commands.length === 0 ? [command] : command.commands.flatMap(lowestCommands);
  const commands = lowestCommands(await createProgram({ ...nowhere, setExitStatus: () => undefined }));
  expect(commands.length).toBeGreaterThan(20);
  const withoutJson = commands.filter(({ options }) => options.every(({ long }) => long !== '--json'));
  expect(withoutJson.map((command) => command.name())).toEqual([]);
});

let site: TestSite;
const run = (...args: string[]) => runCommand(args, site.env);
const runJson = async (...args: string[]) => {
  const { status, stdout, stderr } = await run(...args, '--json');
  expect(stderr).toBe('');
  expect(status).toBe(0);
  return JSON.parse(stdout);
};
const readLastEntry = async (event: string) =>
  (await run('audit', 'export', '--json')).stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .findLast((entry) => entry.event === event);

const statusFor = async (token: string) =>
  (await sendRequest(`${site.url}/admin/api/users`, { headers: { ...ACCEPT_JSON, authorization: `Bearer ${token}` } }))
    .status;

beforeAll(async () => {
  site = await startSite();
});
afterAll(async () => {
  await site?.close();
});

test('admin-tokens list shows every token without its secret', async () => {
  expect(await runJson('admin-tokens', 'list')).toEqual([]);
  expect((await run('admin-tokens', 'list')).stdout).toBe('There is no admin token.\n');
  const [reader, writer] = [await createAdminToken(site, { scope: 'read' }), await createAdminToken(site)];
  expect(await statusFor(reader)).toBe(200);
  const tokens = (): Promise<{ id: string; lastUsedAt: string | null }[]> => runJson('admin-tokens', 'list');
  // The use is recorded after the response.
  await until(async () => (await tokens()).some(({ lastUsedAt }) => lastUsedAt));
  const listed = await tokens();
  expect(listed).toHaveLength(2);
  for (const [token, scope, lastUsedAt] of [
    [reader, 'read', expect.stringMatching(/Z$/)],
    [writer, 'write', null],
  ] as const) {
    const id = token.slice(5, 17);
    const facts = { name: 'of a test', scope, lastUsedAt };
    expect(listed.filter((one) => token.includes(one.id))).toEqual([expect.objectContaining(facts)]);
    const { stdout } = await run('admin-tokens', 'list');
    expect(stdout).toMatch(/^id +scope +expires +last used +name\n/);
    expect(stdout).not.toContain(token.slice(5 + id.length));
  }
});

test('R88 audit export includes the whole day of --to', async () => {
  await createAdminToken(site);
  const today = new Date().toISOString().slice(0, 10);
  const exportLines = async (...limits: string[]) =>
    (await run('audit', 'export', ...limits)).stdout.split('\n').filter((line) => line.includes('admin_token.created'));
  const linesSinceToday = await exportLines('--from', today);
  expect(linesSinceToday.length).toBeGreaterThan(0);
  expect(await exportLines('--to', today)).toEqual(linesSinceToday);
  expect(await exportLines('--from', today, '--to', today)).toEqual(linesSinceToday);
  const invalid = await run('audit', 'export', '--to', '2026-02-31');
  expect([invalid.status, invalid.stdout]).toEqual([1, '']);
  expect(invalid.stderr).toContain('Use a date such as 2026-11-21');
  const empty = await run('audit', 'export', '--from', '2026-11-22', '--to', '2026-11-21');
  expect([empty.status, empty.stdout]).toEqual([1, '']);
  expect(empty.stderr).toContain('The range ends before it begins.');
});

test('admin-tokens revoke takes effect immediately, and is audited', async () => {
  const token = await createAdminToken(site);
  expect(await statusFor(token)).toBe(200);
  const listed: { id: string }[] = await runJson('admin-tokens', 'list');
  const { id = '' } = listed.find((listedToken) => token.includes(listedToken.id)) ?? {};
  expect(await runJson('admin-tokens', 'revoke', id)).toEqual({ id, name: 'of a test' });
  expect(await statusFor(token)).toBe(401);
  expect(await readLastEntry('admin_token.revoked')).toMatchObject({
    actor: { kind: 'operator' },
    target: { kind: 'admin_token', id, name: 'of a test' },
  });
  const secondRevocation = await run('admin-tokens', 'revoke', id);
  expect(secondRevocation).toMatchObject({ status: 1, stdout: '' });
  expect(secondRevocation.stderr).toMatch(
    /^This cannot be done: There is no admin token with this id\. .* admin-tokens list\n$/,
  );
  // An operator may enter the token instead of its id by mistake.
  const otherToken = await createAdminToken(site);
  expect((await run('admin-tokens', 'revoke', otherToken)).stderr).not.toContain(otherToken.slice(17));
  expect(await statusFor(otherToken)).toBe(200);
});

test('sessions end --all signs every user out, who can then sign in again', async () => {
  const users = [await signIn(site), await signIn(site, 'second@example.test')];
  const token = await createAdminToken(site);
  const isSignedIn = async ({ agent }: (typeof users)[number]) =>
    (await getJson(agent, `${site.url}/session`)).json.signedIn;
  for (const user of users) expect(await isSignedIn(user)).toBe(true);
  expect((await run('sessions', 'end')).status).toBe(1);
  for (const user of users) expect(await isSignedIn(user)).toBe(true);
  expect(await runJson('sessions', 'end', '--all')).toEqual({ ended: 2 });
  expect(await readLastEntry('session.all_ended')).toMatchObject({ actor: { kind: 'operator' } });
  for (const user of users) expect(await isSignedIn(user)).toBe(false);
  expect(await statusFor(token)).toBe(200);
  expect((await run('sessions', 'end', '--all')).stdout).toBe('Ended 0 sessions. Users can sign in again.\n');
  expect(await isSignedIn(await signIn(site))).toBe(true);
});
