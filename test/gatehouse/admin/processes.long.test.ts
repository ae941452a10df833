/**
 * R56 with real processes, on both stores: a change by an administrator at one process applies to the next request at
 * the other.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Fleet, type FleetUser, type StoreKind, startFleet } from '../../support/fleet.ts';
import { signIn } from '../../support/gatehouse.ts';
import { skipWithout } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { ACCEPT_HTML, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { createAdministrator } from '../relay/service.ts';

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let fleet: Fleet;
  let admin: Awaited<ReturnType<typeof createAdministrator>>;
  beforeAll(async () => {
    if (missing) return;
    fleet = await startFleet({ kind, processes: 2 });
    admin = await createAdministrator(fleet, fleet.storage);
  });
  afterAll(() => fleet?.close());

  /** By the second process; the administrator asks the first. */
  const isIn = async (person: FleetUser): Promise<boolean> => {
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

  test('R56 a disabled user is signed out at the next request, and can sign in only once enabled', async (context) => {
    skipWithout(context, missing);
    const person = await fleet.signIn('user@example.test');
    // What the other process may keep of the session is fresh.
    expect(await isIn(person)).toBe(true);
    await change('POST', `/users/${person.userId}/disable`);
    try {
      expect(await isIn(person)).toBe(false);
      const refused = await signIn({ url: fleet.url }, person.login);
      expect(refused.page.status).toBe(403);
    } finally {
      await change('POST', `/users/${person.userId}/enable`);
    }
    // What was ended stays so.
    expect(await isIn(person)).toBe(false);
    expect(await isIn(await fleet.signIn(person.login))).toBe(true);
  });

  test('R56 an ended session is refused at the next request, and no other', async (context) => {
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

  test('a deleted user is signed out at the next request', async (context) => {
    skipWithout(context, missing);
    const person = await fleet.signIn('second@example.test');
    expect(await isIn(person)).toBe(true);
    await change('DELETE', `/users/${person.userId}`);
    expect(await isIn(person)).toBe(false);
  });

  test('R106 a form that is sent twice counts once, and its secret is shown once, at any process', async (context) => {
    skipWithout(context, missing);
    const { cookie } = await fleet.signIn('admin@example.test');
    const host = new URL(fleet.url).host;
    const open = (at: number, path: string) =>
      sendRequest(fleet.member(at).url + path, { headers: { ...ACCEPT_HTML, host, cookie } });
    const send = (at: number, path: string, body: URLSearchParams) =>
      sendRequest(fleet.member(at).url + path, {
        ...{ method: 'POST', body: body.toString() },
        headers: { ...ACCEPT_HTML, ...FORM_BODY, host, cookie },
      });
    /** Of the form on this page that is sent there, with these values. */
    const formOn = async (path: string, values: Record<string, string>) => {
      const { body } = await open(0, path);
      const hidden = body.matchAll(/name="(_csrf|_form)" value="([^"]+)"/g);
      return new URLSearchParams({
        ...Object.fromEntries([...hidden].map(([, name, value]) => [name, value])),
        ...values,
      });
    };
    const sendTwice = async (path: string, body: URLSearchParams): Promise<string> => {
      const both = await Promise.all([send(0, path, body), send(1, path, body)]);
      const later = await send(1, path, body);
      const [location = '', ...others] = [...both, later].map(({ headers }) => headers.location);
      expect(others).toEqual([location, location]);
      return location;
    };
    const secretAt = async (at: number, location: string) =>
      /data-copy-source>(gthr_[^<]+)</.exec((await open(at, location)).body)?.[1];
    const statusOf = async (token = '') =>
      (await sendRequest(`${fleet.url}/relay/threads/current`, { headers: { authorization: `Bearer ${token}` } }))
        .status;

    // A second attempt at this test makes others.
    const [reports = '', others = ''] = ['Reports', 'Others'].map((name) => `${name} ${randomUUID()}`);
    const values = { name: reports, scopes: 'threads:read', apps: 'platform', users: 'none', days: '90' };
    const made = await formOn('/admin/relay-tokens', values);
    const location = await sendTwice('/admin/relay-tokens', made);
    const secret = await secretAt(1, location);
    expect([await statusOf(secret), await secretAt(0, location)]).toEqual([400, undefined]);
    made.set('name', others);
    expect((await send(1, '/admin/relay-tokens', made)).headers.location).not.toBe(location);
    made.set('days', '0');
    const faulty = await Promise.all([0, 1].map((at) => send(at, '/admin/relay-tokens', made)));
    expect(faulty.map(({ status }) => status)).toEqual([400, 400]);
    const { json } = await admin.call('GET', '/relay-tokens');
    const names = (json.items as { name: string }[]).map(({ name }) => name);
    expect(names.filter((name) => [reports, others].includes(name)).sort()).toEqual([others, reports]);

    // Done twice, the second new secret would end the one that the service still uses.
    const path = location.replace(/\?.*/, '');
    const rotated = await sendTwice(`${path}/rotate`, await formOn(`${path}/rotate`, { overlapHours: '1' }));
    expect([await statusOf(secret), await statusOf(await secretAt(0, rotated))]).toEqual([400, 400]);
  });
});
