/** A team moves in: an operator imports its users' connections, and a user signs in and reads a thread of an app without consenting to it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openVaultDesk, sessionOf, type VaultDesk } from '../grants/vault-desk.ts';
import { getJson, sandboxApp, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { runCommand } from '../support/terminal.ts';

let site: TestSite;
let desk: VaultDesk;
beforeAll(async () => {
  site = await startSite({
    apps: (parts) => [sandboxApp(parts, 'platform'), sandboxApp(parts, 'second', { signIn: undefined })],
  });
  desk = await openVaultDesk(site);
});
afterAll(async () => {
  await desk.close();
  await site.close();
});

/** What another system holds of this user, who then is unknown here. */
async function moveOut() {
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  let page = await agent.submit(await agent.get(`${site.url}/connections/second`), {}, { button: 'Connect' });
  while (page.forms.some((form) => form.buttons.some(({ text }) => text === 'Allow')))
    page = await agent.submit(page, {}, { button: 'Allow' });
  const stored = await desk.grants.load(userId, 'second');
  if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
  await desk.grants.remove(userId, 'second', stored.version);
  const { refreshToken, account, scopes } = stored.grant;
  return { userId, refreshToken, subject: account.subject, scopes };
}

test('import by command, sign in, read the thread', async () => {
  const { userId, refreshToken, subject, scopes } = await moveOut();
  const file = join(site.dataDirectory, 'from-the-old-system.json');
  writeFileSync(file, JSON.stringify([{ user: { subject }, app: 'second', refreshToken, scopes }]));
  const result = await runCommand(['connections', 'import', file], site.env);
  expect(result).toMatchObject({
    ...{ status: 0, stderr: '' },
    stdout: '1 imported, 0 already connected, 0 refused, 0 not checked, 0 not valid.\n',
  });

  const { agent } = await signIn(site);
  const asked = site.sandbox.hits.count('GET /auth');
  const { status, json } = await getJson(agent, `${site.url}/threads/current?app=second`);
  expect([status, json.problem]).toEqual([200, undefined]);
  expect(site.sandbox.hits.count('GET /auth')).toBe(asked);
  expect((await sessionOf(site, agent)).connections).toContainEqual(
    expect.objectContaining({ app: 'second', health: 'active' }),
  );
  expect((await desk.read(userId, 'second')).scopes.toSorted()).toEqual(scopes.toSorted());
});
