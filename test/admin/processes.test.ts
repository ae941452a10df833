/** R56 over real processes, on both stores: whom an administrator shuts out at one process is out at the next request to the other. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { administratorOf } from '../relay/service.ts';
import { type Fleet, type Person, type StoreKind, startFleet } from '../support/fleet.ts';
import { signIn } from '../support/gatehouse.ts';
import { skipWithout } from '../support/missing.ts';
import { missingRedis } from '../support/redis-server.ts';

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let fleet: Fleet;
  let admin: Awaited<ReturnType<typeof administratorOf>>;
  beforeAll(async () => {
    if (missing) return;
    fleet = await startFleet({ kind, processes: 2 });
    admin = await administratorOf(fleet, fleet.vault.store);
  }, 60_000);
  afterAll(() => fleet?.close());

  /** By the second process; the administrator asks the first. */
  const isIn = async (person: Person): Promise<boolean> => {
    const session = await fleet.get(fleet.member(1), '/session', person);
    const thread = await fleet.thread(fleet.member(1), person);
    const { signedIn } = JSON.parse(session.body);
    expect(thread.status).toBe(signedIn ? 200 : 401);
    return signedIn;
  };
  const change = async (method: string, path: string) => {
    const { status } = await admin.call(method, path);
    expect(status).toBeLessThan(300);
  };

  test('R56 a disabled user is out at the next request, and comes in again only once enabled', async (context) => {
    skipWithout(context, missing);
    const person = await fleet.signIn('user@example.test');
    // What the other process may keep of the session is fresh.
    expect(await isIn(person)).toBe(true);
    await change('POST', `/users/${person.userId}/disable`);
    expect(await isIn(person)).toBe(false);
    const refused = await signIn({ url: fleet.url }, person.login);
    expect(refused.page.status).toBe(403);
    await change('POST', `/users/${person.userId}/enable`);
    // What was ended stays so.
    expect(await isIn(person)).toBe(false);
    expect(await isIn(await fleet.signIn(person.login))).toBe(true);
  });

  test('R56 one session that is ended is out at the next request, and no other', async (context) => {
    skipWithout(context, missing);
    const [one, other] = [await fleet.signIn('second@example.test'), await fleet.signIn('second@example.test')];
    expect([await isIn(one), await isIn(other)]).toEqual([true, true]);
    const { json } = await admin.call('GET', `/sessions?user=${other.userId}`);
    const [newest] = json.items as { id: string }[];
    await change('DELETE', `/sessions/${newest?.id}`);
    expect([await isIn(one), await isIn(other)]).toEqual([true, false]);
    await change('POST', `/users/${one.userId}/sign-out`);
    expect(await isIn(one)).toBe(false);
  });

  test('a user whose everything is deleted is out at the next request', async (context) => {
    skipWithout(context, missing);
    const person = await fleet.signIn('second@example.test');
    expect(await isIn(person)).toBe(true);
    await change('DELETE', `/users/${person.userId}`);
    expect(await isIn(person)).toBe(false);
  });
});
