/** A sign-in whose session or connection cannot be saved has a record that names the cause. */

import { expect, onTestFinished, test } from 'vitest';
import { userIdOf } from '../../../src/gatehouse/users/user-id.ts';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createRedisStore } from '../../../src/shared/storage/redis/store.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import { createUserAgent, type Page } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { signWith } from '../../support/hostile-modes.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, startRedis } from '../../support/redis-server.ts';
import { FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { attempt, begin, callbackFor, startHostileSite } from './attempt.ts';

const ADMIN = { sub: 'root', sid: 'root', groups: ['gatehouse-admins'] };
const EVE = { sub: 'eve', sid: 'eve-1', email: 'eve@example.test' };
const referenceOn = (page: Page) => /data-copy-source>([^<]+)</.exec(page.body)?.[1] ?? 'none';

interface RecordAsJson {
  outcome: string;
  cause: { code: string } | null;
  steps: { name: string; result: string }[];
}

/** Starts a site where an administrator is signed in, and Eve has a grant. */
async function startSiteOn(kind: 'SQLite' | 'Redis') {
  const redis = kind === 'Redis' ? await startRedis() : undefined;
  const site = await startHostileSite({ env: redis ? { REDIS_URL: redis.url } : {} });
  const store = redis
    ? await createRedisStore({ url: redis.url, durability: 'none' })
    : await createSqliteStore({ directory: site.dataDirectory });
  onTestFinished(async () => {
    await store.close();
    await site.close();
    await redis?.dispose();
  });
  site.provider.signInAs(ADMIN);
  const { agent: admin } = await attempt(site);
  site.provider.signInAs(EVE);
  expect((await attempt(site)).signedIn).toBe(true);
  const read = async (path: string) => (await getJson(admin, `${site.url}/admin/api/${path}`)).json;
  return {
    site,
    redis,
    readGrant: () => store.get(keys.grant(userIdOf(site.provider.issuer, EVE.sub), 'elsewhere')),
    readRecordOn: async (page: Page) => (await read(`sign-ins/${referenceOn(page)}`)) as unknown as RecordAsJson,
    readFailures: async () => (await read('audit?event=sign_in.failed')).items,
  };
}

function expectFailedAt(record: RecordAsJson, step: string, cause: string): void {
  expect(record).toMatchObject({ outcome: 'failed', cause: { code: cause } });
  expect(record.steps.filter(({ result }) => result === 'failed').map(({ name }) => name)).toEqual([step]);
}

test.for(['SQLite', 'Redis'] as const)(
  'R62 on %s, a sign-in is recorded as failed because the provider ended its session meanwhile',
  async (kind, context) => {
    skipIfMissing(context, kind === 'Redis' ? missingRedis : undefined);
    const { site, readGrant, readRecordOn, readFailures } = await startSiteOn(kind);
    const grantBefore = await readGrant();
    site.provider.setModes({
      sign: async (claims, { keys: signing }) => {
        const body = new URLSearchParams({ logout_token: await site.provider.logoutToken() }).toString();
        const url = `${site.url}/oauth/backchannel-logout/elsewhere`;
        expect((await sendRequest(url, { method: 'POST', headers: FORM_BODY, body })).status).toBe(200);
        return signWith(signing.rs256, claims);
      },
    });

    const agent = createUserAgent();
    const { page, signedIn } = await attempt(site, { agent });
    expect([page.status, signedIn, agent.cookies.get(sessionCookieName(site.url))]).toEqual([401, false, undefined]);
    expect(page.body).toContain('Your provider signed you out while you were signing in here.');
    expectFailedAt(await readRecordOn(page), 'session', 'ended_by_provider');
    expect(grantBefore).toBeDefined();
    expect(await readGrant()).toEqual(grantBefore);
    await expect.poll(readFailures).toMatchObject([{ outcome: 'failed', facts: { reason: 'ended_by_provider' } }]);
  },
);

/** Patterns of a Redis ACL that allow all keys without this prefix: one for each letter in which a key can differ. */
const allowKeysWithout = (prefix: string) =>
  [...prefix].map((letter, index) => `~${prefix.slice(0, index)}[^${letter}]*`);

test.for([
  // The connection is stored before the session, so it has the new tokens.
  ['session:', 'session', 'session_not_saved', true],
  ['grant', 'connection', 'connection_not_saved', false],
] as const)(
  'if Redis refuses to write %s, the step %s has failed',
  async ([prefix, step, cause, isGrantChanged], context) => {
    skipIfMissing(context, missingRedis);
    const { site, redis, readGrant, readRecordOn, readFailures } = await startSiteOn('Redis');
    const grantBefore = await readGrant();
    const { agent, location } = await begin(site);
    const callback = await callbackFor(location);

    redis?.sendCommand('ACL', 'SETUSER', 'default', 'resetkeys', '%R~*', ...allowKeysWithout(prefix));
    const page = await agent.get(callback.href);
    redis?.sendCommand('ACL', 'SETUSER', 'default', 'resetkeys', '~*');

    expect([page.status, agent.cookies.get(sessionCookieName(site.url))]).toEqual([503, undefined]);
    expectFailedAt(await readRecordOn(page), step, cause);
    expect(grantBefore).toBeDefined();
    expect((await readGrant())?.version === grantBefore?.version).toBe(!isGrantChanged);
    await expect.poll(readFailures).toMatchObject([{ outcome: 'failed', facts: { reason: cause } }]);
  },
);
