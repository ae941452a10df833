/**
 * R56 with real processes, on both stores: a change by an administrator at one process applies to the next request at
 * the other.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Fleet, type FleetUser, type StoreKind, startFleet } from '../../support/fleet.ts';
import { signIn } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
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

  /** Asks the second process. The administrator's changes go to the first. */
  const isSignedIn = async (person: FleetUser): Promise<boolean> => {
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
    skipIfMissing(context, missing);
    const person = await fleet.signIn('user@example.test');
    // The second process may now have the session in its cache.
    expect(await isSignedIn(person)).toBe(true);
    await change('POST', `/users/${person.userId}/disable`);
    try {
      expect(await isSignedIn(person)).toBe(false);
      const refused = await signIn({ url: fleet.url }, person.login);
      expect(refused.page.status).toBe(403);
    } finally {
      await change('POST', `/users/${person.userId}/enable`);
    }
    // The ended session does not return.
    expect(await isSignedIn(person)).toBe(false);
    expect(await isSignedIn(await fleet.signIn(person.login))).toBe(true);
  });

  test('R56 an ended session is refused at the next request, and no other', async (context) => {
    skipIfMissing(context, missing);
    const firstSession = await fleet.signIn('second@example.test');
    const newestSession = await fleet.signIn('second@example.test');
    expect([await isSignedIn(firstSession), await isSignedIn(newestSession)]).toEqual([true, true]);
    const { json } = await admin.call('GET', `/sessions?user=${newestSession.userId}`);
    const [newest] = json.items as { id: string }[];
    await change('DELETE', `/sessions/${newest?.id}`);
    expect([await isSignedIn(firstSession), await isSignedIn(newestSession)]).toEqual([true, false]);
    await change('POST', `/users/${firstSession.userId}/sign-out`);
    expect(await isSignedIn(firstSession)).toBe(false);
  });

  test('a deleted user is signed out at the next request', async (context) => {
    skipIfMissing(context, missing);
    const person = await fleet.signIn('second@example.test');
    expect(await isSignedIn(person)).toBe(true);
    await change('DELETE', `/users/${person.userId}`);
    expect(await isSignedIn(person)).toBe(false);
  });

  test('R106 a form that is sent twice counts once, and its secret is shown once, at any process', async (context) => {
    skipIfMissing(context, missing);
    const { cookie } = await fleet.signIn('admin@example.test');
    const host = new URL(fleet.url).host;
    const open = (member: number, path: string) =>
      sendRequest(fleet.member(member).url + path, { headers: { ...ACCEPT_HTML, host, cookie } });
    const send = (member: number, path: string, body: URLSearchParams) =>
      sendRequest(fleet.member(member).url + path, {
        ...{ method: 'POST', body: body.toString() },
        headers: { ...ACCEPT_HTML, ...FORM_BODY, host, cookie },
      });
    /** Returns the fields of the form on this page, with these values. */
    const readForm = async (path: string, values: Record<string, string>) => {
      const { body } = await open(0, path);
      const hidden = body.matchAll(/name="(_csrf|_form|base)" value="([^"]+)"/g);
      return new URLSearchParams({
        ...Object.fromEntries([...hidden].map(([, name, value]) => [name, value])),
        ...values,
      });
    };
    const sendTwice = async (path: string, body: URLSearchParams): Promise<string> => {
      const concurrent = await Promise.all([send(0, path, body), send(1, path, body)]);
      const repeated = await send(1, path, body);
      const [location = '', ...otherLocations] = [...concurrent, repeated].map(({ headers }) => headers.location);
      expect(otherLocations).toEqual([location, location]);
      return location;
    };
    const readSecret = async (member: number, location: string) =>
      /data-copy-source>(gthr_[^<]+)</.exec((await open(member, location)).body)?.[1];
    const statusOf = async (token = '') =>
      (await sendRequest(`${fleet.url}/relay/threads/current`, { headers: { authorization: `Bearer ${token}` } }))
        .status;

    // The names are random, because a failed test is repeated in the same fleet.
    const firstName = `Reports ${randomUUID()}`;
    const secondName = `Others ${randomUUID()}`;
    const values = { name: firstName, scopes: 'threads:read', apps: 'platform', users: 'none', expiry: '90' };
    const form = await readForm('/admin/relay-tokens', values);
    const location = await sendTwice('/admin/relay-tokens', form);
    const secret = await readSecret(1, location);
    expect([await statusOf(secret), await readSecret(0, location)]).toEqual([400, undefined]);

    // Other values make it another form.
    form.set('name', secondName);
    expect((await send(1, '/admin/relay-tokens', form)).headers.location).not.toBe(location);
    form.set('expiry', '0');
    const faulty = await Promise.all(
      [0, 1].map(async (member) => {
        const { headers } = await send(member, '/admin/relay-tokens', form);
        return open(1 - member, String(headers.location));
      }),
    );
    expect(faulty.map(({ status }) => status)).toEqual([400, 400]);
    const { json } = await admin.call('GET', '/relay-tokens');
    const names = (json.items as { name: string }[]).map(({ name }) => name);
    const createdNames = names.filter((name) => [firstName, secondName].includes(name));
    expect(createdNames.sort()).toEqual([secondName, firstName]);

    // A second rotation would end the old secret, which the service still uses.
    const path = location.replace(/\?.*/, '');
    const rotated = await sendTwice(`${path}/rotate`, await readForm(`${path}/rotate`, { overlapHours: '1' }));
    expect([await statusOf(secret), await statusOf(await readSecret(0, rotated))]).toEqual([400, 400]);
  });
});
