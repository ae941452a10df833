/** Sign-ins whose session or connection cannot be saved: the record names the cause, with both storages. */

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

interface Shown {
  outcome: string;
  cause: { name: string } | null;
  steps: { name: string; result: string }[];
}

/** An administrator, and Eve with a grant that a failed sign-in must not change. */
async function siteOn(kind: 'SQLite' | 'Redis') {
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
    grant: () => store.get(keys.grant(userIdOf(site.provider.issuer, EVE.sub), 'elsewhere')),
    recordOn: async (page: Page) => (await read(`sign-ins/${referenceOn(page)}`)) as unknown as Shown,
    failures: async () => (await read('audit?event=sign_in.failed')).items,
  };
}

function expectFailedAt(record: Shown, step: string, cause: string): void {
  expect(record).toMatchObject({ outcome: 'failed', cause: { name: cause } });
  expect(record.steps.filter(({ result }) => result === 'failed').map(({ name }) => name)).toEqual([step]);
}

test.for(['SQLite', 'Redis'] as const)(
  'R62 with %s, records a sign-in as failed because the provider ended its session meanwhile',
  async (kind, context) => {
    skipIfMissing(context, kind === 'Redis' ? missingRedis : undefined);
    const { site, grant, recordOn, failures } = await siteOn(kind);
    const before = await grant();
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
    expectFailedAt(await recordOn(page), 'session', 'ended_by_provider');
    expect(before).toBeDefined();
    expect(await grant()).toEqual(before);
    await expect.poll(failures).toMatchObject([{ outcome: 'failed', facts: { reason: 'ended_by_provider' } }]);
  },
);

/** Patterns of a Redis ACL for all keys without this prefix. */
const allBut = (start: string) => [...start].map((letter, place) => `~${start.slice(0, place)}[^${letter}]*`);

test.for([
  // The connection is already stored, with newer tokens than before.
  ['session:', 'session', 'session_not_saved', true],
  ['grant', 'connection', 'connection_not_saved', false],
] as const)('a Redis that refuses to write %s: the step %s failed', async ([refused, step, cause, isNew], context) => {
  skipIfMissing(context, missingRedis);
  const { site, redis, grant, recordOn, failures } = await siteOn('Redis');
  const before = await grant();
  const { agent, location } = await begin(site);
  const callback = await callbackFor(location);
  redis?.sendCommand('ACL', 'SETUSER', 'default', 'resetkeys', '%R~*', ...allBut(refused));
  const page = await agent.get(callback.href);
  redis?.sendCommand('ACL', 'SETUSER', 'default', 'resetkeys', '~*');
  expect([page.status, agent.cookies.get(sessionCookieName(site.url))]).toEqual([503, undefined]);
  expectFailedAt(await recordOn(page), step, cause);
  expect(before).toBeDefined();
  expect((await grant())?.version === before?.version).toBe(!isNew);
  await expect.poll(failures).toMatchObject([{ outcome: 'failed', facts: { reason: cause } }]);
});
