/** R117: nothing is stored for a deleted user or app, even if requests overlap with the deletion. `ROUNDS` repeats it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import type { BrokenResponse } from '../../support/broken-responses.ts';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { breakStore } from '../../support/store-fault.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';
import { attempt, begin, callbackFor, type HostileSite, startHostileSite, textOf } from '../sign-in/attempt.ts';

interface AuditEntryJson {
  target: { id: string };
}

const ROUNDS = Number(process.env.ROUNDS ?? 12);

let site: HostileSite;
let storage: StorageAccess;
let admin: Administrator;
beforeAll(async () => {
  site = await startHostileSite({
    apps: (provider, url) => [provider.app(url), provider.app(url, { id: 'files', name: 'Files', signIn: undefined })],
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

async function signInAs(sub: string): Promise<{ agent: UserAgent; userId: string; csrfToken: string }> {
  site.provider.signInAs({ sub, email: `${sub}@example.test` });
  const { agent, signedIn } = await attempt(site);
  expect(signedIn).toBe(true);
  return { agent, ...(await sessionOf(site, agent)) };
}

const postForm = (agent: UserAgent, path: string, csrfToken: string) =>
  agent.request(site.url + path, {
    method: 'POST',
    headers: { accept: 'application/json' },
    body: new URLSearchParams({ _csrf: csrfToken }),
    follow: false,
  });

/** The callback URL of a connection that the user has allowed. The browser has not opened it yet. */
async function callbackOfConnection(agent: UserAgent, csrfToken: string, app = 'files'): Promise<string> {
  const { location } = JSON.parse((await postForm(agent, `/connections/${app}`, csrfToken)).body);
  return (await callbackFor(location)).href;
}

/** A second user agent with the session of the first one. */
function withSameSession(agent: UserAgent): UserAgent {
  const cookieName = sessionCookieName(site.url);
  const otherAgent = createUserAgent();
  otherAgent.cookies.set(site.url, cookieName, agent.cookies.get(cookieName) ?? '');
  return otherAgent;
}

const grantsOf = async (userId: string) => (await storage.grants.list(userId)).map(({ appId }) => appId);
/** Waits a little differently in each round, so that the two requests of a round overlap in different ways. */
const waitInRound = (round: number) => new Promise((resolve) => setTimeout(resolve, round % 6));
/** Refresh tokens that were revoked at the provider. */
const revokedTokens = () =>
  site.provider.hitsOf('revocation').map(({ body }) => new URLSearchParams(body).get('token'));
const countTokenResponses = () => site.provider.hitsOf('token').length;

test(`R117 a user who is deleted during the callback of a connection keeps none, ${ROUNDS} times`, async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const { agent, userId, csrfToken } = await signInAs(`deleted-${round}`);
    const callback = await callbackOfConnection(agent, csrfToken);
    site.provider.reset();
    const otherAgent = withSameSession(agent);
    const [deletion] = await Promise.all([
      waitInRound(round).then(() => postForm(otherAgent, '/account/delete', csrfToken)),
      waitInRound(round * 2).then(() => agent.get(callback)),
    ]);
    expect([deletion.status, await grantsOf(userId)], `round ${round}`).toEqual([200, []]);
    expect((await admin.call('GET', `/users/${userId}`)).status).toBe(404);
    // The tokens that the provider issued are revoked, and so is the grant of the sign-in.
    await until(() => revokedTokens().length >= countTokenResponses() + 1);
  }
});

test('R117 a sign-in that began before the deletion creates no user and no connection, and a later one does', async () => {
  const { agent, userId, csrfToken } = await signInAs('returning');
  const secondAgent = createUserAgent();
  const { location } = await begin(site, { agent: secondAgent });
  const callback = (await callbackFor(location)).href;
  expect((await postForm(agent, '/account/delete', csrfToken)).status).toBe(200);

  const page = await secondAgent.get(callback);
  expect([page.status, textOf(page.body)]).toEqual([401, expect.stringContaining('your data was deleted')]);
  expect((await admin.call('GET', `/users/${userId}`)).status).toBe(404);
  expect(await grantsOf(userId)).toEqual([]);
  expect((await signInAs('returning')).userId).toBe(userId);
  expect(await grantsOf(userId)).toHaveLength(1);
});

test('R117 a sign-in that a disabled user began before the deletion stores nothing once the user is enabled again', async () => {
  const { userId } = await signInAs('enabled-again');
  expect((await admin.call('POST', `/users/${userId}/disable`)).status).toBe(200);
  site.provider.signInAs({ sub: 'enabled-again', email: 'enabled-again@example.test' });
  const secondAgent = createUserAgent();
  const { location } = await begin(site, { agent: secondAgent });
  const callback = (await callbackFor(location)).href;
  expect((await admin.call('DELETE', `/users/${userId}`)).status).toBe(200);
  expect((await admin.call('POST', `/users/${userId}/enable`)).status).toBe(200);
  expect((await secondAgent.get(callback)).status).toBe(401);
  expect(await grantsOf(userId)).toEqual([]);
});

test.each<[string, (agent: UserAgent, csrfToken: string, userId: string) => Promise<unknown>]>([
  ['signs out everywhere', (agent, csrfToken) => postForm(agent, '/sign-out/everywhere', csrfToken)],
  ['is disabled', (_agent, _csrfToken, userId) => admin.call('POST', `/users/${userId}/disable`)],
  [
    'is signed out by an administrator',
    (_agent, _csrfToken, userId) => admin.call('POST', `/users/${userId}/sign-out`),
  ],
])(
  'R117 a user who %s while the provider is slow gets no connection, and the issued tokens are revoked',
  async (description, endSessions) => {
    const { agent, userId, csrfToken } = await signInAs(`slow-${description.length}`);
    const callback = await callbackOfConnection(agent, csrfToken);
    site.provider.reset();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const token: BrokenResponse = (res, { body }) =>
      void released.then(() => res.writeHead(200, { 'content-type': 'application/json' }).end(body));
    site.provider.setModes({ responses: { token } });
    const callbackResponse = agent.get(callback);
    await until(() => countTokenResponses() === 1);
    await endSessions(withSameSession(agent), csrfToken, userId);
    release();

    expect((await callbackResponse).status).toBeGreaterThanOrEqual(400);
    expect(await grantsOf(userId)).not.toContain('files');
    await until(() => revokedTokens().length > 0);
  },
);

test(`R117 an app that is deleted while a user connects leaves no connection, ${ROUNDS} times`, async () => {
  const { agent, userId, csrfToken } = await signInAs('connecting');
  for (let round = 0; round < ROUNDS; round += 1) {
    const id = `app-${round}`;
    const { clientSecret: _, ...registration } = site.provider.app(site.url, { id, name: id, signIn: undefined });
    const app = { ...registration, clientSecret: site.provider.clientSecret };
    expect((await admin.call('POST', '/connected-apps', app)).status).toBe(201);
    const callback = await callbackOfConnection(agent, csrfToken, id);
    site.provider.reset();
    const [deletion] = await Promise.all([
      waitInRound(round).then(() => admin.call('DELETE', `/connected-apps/${id}`)),
      waitInRound(round * 2).then(() => agent.get(callback)),
    ]);
    const isDeleted = deletion.status < 300;
    const isConnected = (await grantsOf(userId)).includes(id);
    // The deletion is refused if the user was connected before it.
    expect(isConnected, `round ${round}`).toBe(!isDeleted);
    if (isDeleted) await until(() => revokedTokens().length >= countTokenResponses());
    else await admin.call('DELETE', `/connections/${userId}.${id}`);
  }
});

test('R117 a deletion that the storage interrupts says what is not deleted yet, and is finished and audited later', async () => {
  const { agent, userId, csrfToken } = await signInAs('interrupted');
  await agent.get(await callbackOfConnection(agent, csrfToken));
  expect(await grantsOf(userId)).toEqual(['elsewhere', 'files']);
  let endFault = () => {};
  const revocation: BrokenResponse = (res) => {
    if (site.provider.hitsOf('revocation').length === 1) endFault = breakStore();
    res.writeHead(200).end();
  };
  site.provider.reset();
  site.provider.setModes({ responses: { revocation } });
  const page = await postForm(agent, '/account/delete', csrfToken);
  endFault();
  expect(page.status).toBe(503);
  expect(Number(page.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(JSON.parse(page.body)).toMatchObject({
    code: 'storage_unavailable',
    detail:
      'The deletion has begun, but the storage did not respond. Not deleted yet: 1 connection, sign-in records, connect links, name and e-mail address. Gatehouse finishes the deletion within two minutes after the storage responds again.',
  });
  expect((await attempt(site)).signedIn).toBe(false);
  const readEntries = async (event: string) =>
    ((await admin.call('GET', `/audit?event=${event}&limit=50`)).json.items as AuditEntryJson[]).filter(
      ({ target }) => target.id === userId,
    );
  expect([await readEntries('user.deletion_started'), await readEntries('user.deleted')]).toMatchObject([
    [{ actor: { kind: 'user', id: userId } }],
    [],
  ]);

  // As if the deletion had begun long ago, so that the scheduled task finishes it.
  const { items } = await storage.store.page(keys.erasures, { limit: 9 });
  await storage.store.write(items.map(({ member }) => ({ index: keys.erasures, add: member, score: 1 })));
  await site.restart();
  await until(async () => (await readEntries('user.deleted')).length > 0);
  expect(await readEntries('user.deleted')).toMatchObject([{ actor: { kind: 'system' } }]);
  expect([(await admin.call('GET', `/users/${userId}`)).status, await grantsOf(userId)]).toEqual([404, []]);
});
