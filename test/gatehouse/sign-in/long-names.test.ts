/** Names of providers that exceed a limit: cut between characters, stored, found and shown, on both storages. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';
import { attempt, type HostileSite, startHostileSite } from './attempt.ts';

/** Each is one character, and more than one UTF-16 unit. */
const CHARACTERS = ['😀', '👩‍👩‍👧‍👦', '🇩🇪', 'e\u0301', 'שּׁ', 'नि', '𠮷'];
const ADMIN = { sub: 'root', email: 'root@example.test', groups: ['gatehouse-admins'] };

describe.each(['SQLite', 'Redis'])('with %s', (kind) => {
  let redis: RedisServer | undefined;
  let site: HostileSite;
  beforeEach((context) => skipIfMissing(context, kind === 'Redis' ? missingRedis : undefined));
  beforeAll(async () => {
    if (kind === 'Redis' && missingRedis) return;
    redis = kind === 'Redis' ? await startRedis() : undefined;
    site = await startHostileSite({ env: redis ? { REDIS_URL: redis.url } : {} });
  });
  afterEach(() => site?.provider.reset());
  afterAll(async () => {
    await site?.close();
    await redis?.dispose();
  });

  const signedInAs = async (user: { sub: string; name?: string; email?: string; groups?: string[] }) => {
    site.provider.signInAs(user);
    return (await attempt(site)).agent;
  };
  const nameOf = async (agent: UserAgent) => {
    const { user } = (await getJson(agent, `${site.url}/session`)).json as { user: { name: string } };
    return user.name;
  };

  test.each(CHARACTERS)('%s at the limit of a name is left out as a whole', async (character) => {
    const fitting = 'x'.repeat(199);
    const agent = await signedInAs({ sub: 'long', name: `${fitting}${character}y` });
    expect(await nameOf(agent)).toBe(fitting);
  });

  test.each(CHARACTERS)('a user is found by a name with %s at the limit of a search term', async (character) => {
    const start = `${CHARACTERS.indexOf(character)}${'x'.repeat(98)}${character}`;
    await signedInAs({ sub: `searched-${CHARACTERS.indexOf(character)}`, name: `${start}yz` });
    const admin = await signedInAs(ADMIN);
    const { items } = (await getJson(admin, `${site.url}/admin/api/users?q=${encodeURIComponent(start)}`)).json;
    expect(items).toMatchObject([{ name: `${start}yz` }]);
  });

  test('a name of one character that is too long is left out', async () => {
    const agent = await signedInAs({ sub: 'marks', name: `e${'\u0301'.repeat(300)}` });
    expect(await nameOf(agent)).toBeNull();
  });
});
