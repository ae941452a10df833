/** Names of users that are too long are cut between characters, and found by a search term that is cut alike. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';
import { attempt, type HostileSite, startHostileSite } from './attempt.ts';

/** Each is one character for its reader, and more than one UTF-16 code unit. */
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

  const signInAs = async (user: { sub: string; name?: string; email?: string; groups?: string[] }) => {
    site.provider.signInAs(user);
    return (await attempt(site)).agent;
  };
  const readName = async (agent: UserAgent) => {
    const { user } = (await getJson(agent, `${site.url}/session`)).json as { user: { name: string } };
    return user.name;
  };

  test.each(CHARACTERS)('%s at the limit of a name is left out as a whole', async (character) => {
    const nameThatFits = 'x'.repeat(199);
    const agent = await signInAs({ sub: 'long', name: `${nameThatFits}${character}y` });
    expect(await readName(agent)).toBe(nameThatFits);
  });

  test.each(CHARACTERS)('a user is found by a name with %s at the limit of a search term', async (character) => {
    const number = CHARACTERS.indexOf(character);
    const term = `${number}${'x'.repeat(98)}${character}`;
    await signInAs({ sub: `searched-${number}`, name: `${term}yz` });
    const admin = await signInAs(ADMIN);

    const { items } = (await getJson(admin, `${site.url}/admin/api/users?q=${encodeURIComponent(term)}`)).json;
    expect(items).toMatchObject([{ name: `${term}yz` }]);
  });

  test('a name of one character that is too long is left out', async () => {
    const agent = await signInAs({ sub: 'marks', name: `e${'\u0301'.repeat(300)}` });
    expect(await readName(agent)).toBeNull();
  });
});
