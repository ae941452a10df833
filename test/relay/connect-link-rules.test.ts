/** Connect links in one process: who may create them, for what, and for how long, by a clock that is moved. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keys } from '../../src/storage/keys.ts';
import { sessionOf } from '../grants/vault-desk.ts';
import { type Asked, ask, JSON_BODY } from '../support/ask.ts';
import type { UserAgent } from '../support/browserless.ts';
import { openVault, type StoreKind, type Vault } from '../support/fleet.ts';
import { signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { skipWithout } from '../support/missing.ts';
import { pass } from '../support/passing-time.ts';
import { missingRedis, type RedisServer, startRedis } from '../support/redis-server.ts';
import { type Administrator, administratorOf, bearer } from './service.ts';

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let redis: RedisServer | undefined;
  let site: TestSite;
  let vault: Vault;
  let admin: Administrator;
  let agent: UserAgent;
  let user: string;
  let token: string;
  beforeAll(async () => {
    if (missing) return;
    if (kind === 'Redis') redis = await startRedis();
    const env = { SESSION_IDLE_SECONDS: '7200', ...(redis && { REDIS_URL: redis.url }) };
    site = await startSite({ env, sandbox: { accessTokenSeconds: 3_600 } });
    vault = await openVault(site.env);
    admin = await administratorOf(site, vault);
    ({ agent } = await signIn(site));
    ({ userId: user } = await sessionOf(site, agent));
    ({ token } = await admin.makeToken({ scopes: ['connect_links:create'], assertUser: true }));
  });
  afterAll(async () => {
    await vault?.store.close();
    await site?.close();
    await redis?.dispose();
  });

  const create = (wanted: Record<string, unknown> = {}, by = token): Promise<Asked> =>
    ask(`${site.url}/relay/connect-links`, {
      method: 'POST',
      headers: { ...bearer(by), ...JSON_BODY },
      body: JSON.stringify({ user, app: 'platform', ...wanted }),
    });

  test('R114 the policy of the relay token, the app’s scopes and its return URLs decide', async (context) => {
    skipWithout(context, missing);
    const wrong = [
      [{ app: 'unknown' }, 403],
      [{ user: 'uAAAAAAAAAAAAAAAAAAAAAA' }, 404],
      [{ user: undefined }, 400],
      [{ scopes: ['admin'] }, 400],
      [{ scopes: [] }, 400],
      [{ returnUrl: 'https://elsewhere.test/' }, 400],
      [{ returnUrl: '/connections' }, 400],
    ] as const;
    for (const [wanted, status] of wrong) expect([wanted, (await create(wanted)).status]).toEqual([wanted, status]);
    const { token: reader } = await admin.makeToken({ scopes: ['connections:read'], assertUser: true });
    expect((await create({}, reader)).status).toBe(403);
    const { token: prover } = await admin.makeToken({ scopes: ['connect_links:create'] });
    expect((await create({}, prover)).status).toBe(403);
  });

  test('R114 a link that was created while its relay token was being revoked opens nothing', async (context) => {
    skipWithout(context, missing);
    const { id, token: own } = await admin.makeToken({ scopes: ['connect_links:create'], assertUser: true });
    const { url } = JSON.parse((await create({}, own)).body);
    expect((await agent.get(url)).status).toBe(200);
    // As if the other process had listed the links to revoke just before.
    await vault.store.write([{ delete: keys.relayToken(id) }]);
    expect((await agent.get(url)).status).toBe(404);
  });

  test('R114 a link works for 30 minutes and no longer', async (context) => {
    skipWithout(context, missing);
    const makeLink = async (): Promise<{ id: string; url: string }> => JSON.parse((await create()).body);
    const listed = async () =>
      ((await admin.call('GET', '/connect-links')).json.items as { id: string }[]).map(({ id }) => id);
    const link = await makeLink();
    pass(1_790);
    const page = await agent.get(link.url);
    expect(page.status).toBe(200);
    pass(11);
    const before = await vault.read(user);
    expect((await agent.submit(page, {}, { button: 'Connect' })).status).toBe(404);
    expect((await agent.get(link.url)).body).toContain('This link no longer works');
    expect(await vault.read(user)).toEqual(before);
    const next = await makeLink();
    expect(await listed()).toEqual([next.id]);
  });
});
