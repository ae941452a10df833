/** Users, sessions and connections in the administration, by API and page. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { UserAgent } from '../../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { runCommand } from '../../../support/terminal.ts';

let site: TestSite;
let admin: UserAgent;
let csrf: string;
beforeAll(async () => {
  site = await startSite();
  ({ agent: admin } = await signIn(site, 'admin@example.test'));
  csrf = String((await getJson(admin, `${site.url}/session`)).json.csrfToken);
});
afterAll(() => site.close());

type Json = Record<string, unknown>;
interface List {
  items: Json[];
  next?: string;
}

const readList = async (path: string) =>
  (await getJson(admin, `${site.url}/admin/api/${path}`)).json as unknown as List;
const call = async (method: string, path: string) => {
  const headers = { accept: 'application/json', 'x-csrf-token': csrf };
  const page = await admin.request(`${site.url}/admin/api/${path}`, { method, headers, follow: false });
  return { status: page.status, json: page.body === '' ? {} : (JSON.parse(page.body) as Json) };
};
const userIdOf = async (agent: UserAgent) => {
  const { user } = (await getJson(agent, `${site.url}/session`)).json as { user: { id: string } };
  return user.id;
};
const isSignedIn = async (agent: UserAgent) => (await getJson(agent, `${site.url}/session`)).json.signedIn === true;
const readAudit = async (query: string) => (await readList(`audit?${query}`)).items;

describe('users', () => {
  test('R56: are found by the beginning of a name, a word of it, an address or id, and read with sessions and connections', async () => {
    const { agent } = await signIn(site);
    const id = await userIdOf(agent);
    for (const q of ['USER@ex', id.slice(0, 9), 'uSeR']) {
      const { items } = await readList(`users?q=${encodeURIComponent(q)}`);
      expect(items.map((user) => user.id)).toContain(id);
    }
    expect((await readList('users?q=nobody-like-this')).items).toEqual([]);
    const { json } = await getJson(admin, `${site.url}/admin/api/users/${id}`);
    expect(json).toMatchObject({ id, email: 'user@example.test', disabled: false });
    expect(json.sessions).toMatchObject([{ address: '127.0.0.1', app: 'platform', user: { id } }]);
    expect(json.connections).toMatchObject([{ user: { id }, app: 'platform', health: 'active' }]);
  });

  test('R56: signing out by an administrator ends sessions at the next request, and the audit trail names the administrator', async () => {
    const { agent } = await signIn(site);
    const id = await userIdOf(agent);
    expect((await call('POST', `users/${id}/sign-out`)).status).toBe(204);
    expect(await isSignedIn(agent)).toBe(false);
    const [entry] = await readAudit(`event=session.ended_everywhere&target=${id}`);
    expect(entry).toMatchObject({ actor: { kind: 'administrator', name: 'admin@example.test' }, address: '127.0.0.1' });
    expect(entry?.requestId).toMatch(/-/);
  });

  test('R56: disabling ends sessions at the next request and refuses sign-ins until the user is enabled', async () => {
    const { agent } = await signIn(site);
    const id = await userIdOf(agent);
    expect((await call('POST', `users/${id}/disable`)).json).toMatchObject({ id, disabled: true });
    expect(await isSignedIn(agent)).toBe(false);

    const refused = await signIn(site);
    expect(refused.page.status).toBe(403);
    expect(await isSignedIn(refused.agent)).toBe(false);
    const reference = /data-copy-source>([^<]+)</.exec(refused.page.body)?.[1] ?? '';
    const { json } = await getJson(admin, `${site.url}/admin/api/sign-ins/${reference}`);
    expect(json.cause).toMatchObject({ code: 'not_permitted', text: 'This user is disabled.' });

    expect((await call('POST', `users/${id}/enable`)).json).toMatchObject({ disabled: false });
    expect(await isSignedIn((await signIn(site)).agent)).toBe(true);
  });

  test('deletion revokes connections, ends sessions, and leaves only audit entries', async () => {
    const { agent } = await signIn(site, 'second@example.test');
    const id = await userIdOf(agent);
    const countBefore = site.sandbox.requests.count('POST /revoke');

    const { status, json } = await call('DELETE', `users/${id}`);

    const revoked = {
      id: expect.stringMatching(/^cn/),
      app: 'platform',
      revocation: 'revoked',
      providerResponse: { status: 200 },
    };
    expect([status, json]).toEqual([200, { id, connections: [revoked] }]);
    expect(site.sandbox.requests.count('POST /revoke')).toBe(countBefore + 1);
    expect(await isSignedIn(agent)).toBe(false);
    expect((await call('GET', `users/${id}`)).status).toBe(404);
    for (const path of [
      `users?q=${id}`,
      `sessions?user=${id}`,
      `connections?user=${id}`,
      'sign-ins?q=second@example.test',
    ])
      expect((await readList(path)).items).toEqual([]);
    await expect.poll(() => readAudit(`event=user.deleted&target=${id}`)).toHaveLength(1);
    expect(await readAudit(`event=user.deletion_started&target=${id}`)).toHaveLength(1);
  });

  test('R56: a disabled user who is deleted loses name and address, and still cannot sign in', async () => {
    const { agent } = await signIn(site, 'second@example.test');
    const id = await userIdOf(agent);
    await call('POST', `users/${id}/disable`);
    expect((await call('DELETE', `users/${id}`)).status).toBe(200);
    expect((await signIn(site, 'second@example.test')).page.status).toBe(403);
    const { json } = await getJson(admin, `${site.url}/admin/api/users/${id}`);
    expect(json).toMatchObject({ id, disabled: true });
    expect([json.name, json.email]).toEqual([null, null]);
    expect((await readList('users?q=second')).items).toEqual([]);
    await call('POST', `users/${id}/enable`);
    expect((await signIn(site, 'second@example.test')).page.status).toBe(200);
  });
});

describe('sessions', () => {
  test('R56: all sessions are listed with browser and address, and each can be ended', async () => {
    const { agent } = await signIn(site);
    const { agent: newestAgent } = await signIn(site);
    const id = await userIdOf(agent);
    const { items } = await readList(`sessions?user=${id}`);
    expect((await readList('sessions?limit=200')).items.length).toBeGreaterThanOrEqual(items.length + 1);
    const [newest] = (await readList('sessions?limit=1')).items;
    expect(newest).toMatchObject({ user: { id }, address: '127.0.0.1' });
    expect((await call('DELETE', `sessions/${String(newest?.id)}`)).status).toBe(204);
    expect([await isSignedIn(agent), await isSignedIn(newestAgent)]).toEqual([true, false]);
    expect((await call('DELETE', `sessions/${String(newest?.id)}`)).status).toBe(404);
    expect((await readList('sessions?limit=200')).items.map((session) => session.id)).not.toContain(newest?.id);
  });
});

describe('connections', () => {
  test('R52: a revocation that the provider does not confirm is pending, and retried until it is confirmed', async () => {
    const { agent } = await signIn(site);
    const id = await userIdOf(agent);
    const heal = site.sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', kind: 'unavailable' });
    const { json } = await call('DELETE', `connections/${id}.platform`);
    const { id: connection } = json;
    expect(json).toEqual({
      id: expect.stringMatching(/^cn/),
      revocation: 'pending',
      providerResponse: { status: 503 },
    });
    expect((await readList(`connections?user=${id}`)).items).toEqual([]);

    expect((await readList('revocations')).items).toMatchObject([
      {
        userId: id,
        app: 'platform',
        connection,
        attemptCount: 1,
        providerResponse: { status: 503 },
        providerResponseText: 'status 503',
      },
    ]);
    expect((await admin.get(`${site.url}/admin/users/${id}`)).body).toContain('status 503</bdi>');
    const { body } = await admin.get(`${site.url}/admin/connections`);
    const pendingRevocations = body.slice(body.indexOf('Pending revocations'));
    expect(pendingRevocations).toContain(`href="/admin/users/${id}"><bdi>Uma Okafor</bdi>`);
    const page = await agent.get(`${site.url}/connections/platform`, { headers: { accept: 'text/html' } });
    expect(page.body).toContain('Withdrawal pending');
    expect(await readAudit(`event=revocation.pending&target=${id}`)).toMatchObject([
      { facts: { connection, status: 503 } },
    ]);
    heal();
  });

  test('R52: the page of the user shows the response of the provider', async () => {
    const id = await userIdOf((await signIn(site)).agent);
    const heal = site.sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', kind: 'unavailable' });
    const disconnect = async () => {
      const question = await admin.follow(await admin.get(`${site.url}/admin/users/${id}`), 'Disconnect…');
      expect(question.body).toContain('Disconnect Collaboration platform from <bdi>Uma Okafor</bdi>?');
      return admin.submit(question, {}, { button: 'Disconnect' });
    };

    const pendingPage = await disconnect();
    heal();
    expect(pendingPage.url).toContain(`/admin/users/${id}`);
    expect(pendingPage.body).toContain('The revocation at the provider is pending');
    expect(pendingPage.body).toContain('(status 503)');

    await signIn(site);
    const confirmedPage = await disconnect();
    expect(confirmedPage.body).toContain('The provider has confirmed the revocation (status 200).');
    // Pending revocations are confirmed in the background, and also have entries.
    expect(await readAudit(`event=revocation.confirmed&target=${id}`)).toContainEqual(
      expect.objectContaining({ facts: expect.objectContaining({ status: 200 }) }),
    );
  });

  test.each([
    'connections?done=revoked&status=200',
    'sessions?done=ended',
    'users?done=delete',
    'keys?done=rotated',
    'relay-tokens?done=revoked',
    'admin-tokens?done=revoked',
    'webhooks?done=removed',
    'service-accounts?done=removed',
    'connected-apps?done=deleted',
    'connected-apps/platform?done=registered',
  ])('R52: a link cannot forge a notice: %s', async (path) => {
    const page = await admin.get(`${site.url}/admin/${path}`);
    expect([page.status, page.body.includes('class="notice notice-success"')]).toEqual([200, false]);
  });

  test('disconnecting everyone from an app shows the progress', async () => {
    await signIn(site);
    const total = (await readList('connections?app=platform')).items.length;
    expect(total).toBeGreaterThan(1);
    const { status, json } = await call('POST', 'connected-apps/platform/disconnect-everyone');
    expect([status, json.app]).toEqual([202, 'platform']);
    await expect
      .poll(async () => (await call('GET', 'connected-apps/platform/disconnect-everyone')).json)
      .toMatchObject({ total, done: total, finishedAt: expect.any(String), results: { revoked: total } });
    expect((await readList('connections?app=platform')).items).toEqual([]);
  });
});

describe('pages', () => {
  test('ask administrators before they disable themselves', async () => {
    const adminId = await userIdOf(admin);
    const page = await admin.get(`${site.url}/admin/users/${adminId}`);
    expect(page.forms.filter(({ action }) => action.endsWith('/disable'))).toEqual([]);
    expect(page.body).toContain(`href="/admin/users/${adminId}/disable"`);

    const question = await admin.get(`${site.url}/admin/users/${adminId}/disable`);
    expect(question.body).toContain('This is your own account. You will be signed out');
    expect(question.forms.filter(({ action }) => action.endsWith('/disable'))).toHaveLength(1);
  });

  test('show users, and a notice after each change', async () => {
    const { agent } = await signIn(site);
    const id = await userIdOf(agent);
    for (const path of [
      'users',
      `users/${id}`,
      'sessions',
      'connections',
      'connected-apps/platform/disconnect-everyone',
      'sign-ins',
      'audit',
    ]) {
      const page = await admin.get(`${site.url}/admin/${path}`, { headers: { accept: 'text/html' } });
      expect([path, page.status]).toEqual([path, 200]);
    }

    const signOutQuestion = await admin.get(`${site.url}/admin/users/${id}/sign-out`);
    expect(await isSignedIn(agent)).toBe(true);
    const signedOut = await admin.submit(signOutQuestion, {}, { button: 'Sign out everywhere' });
    expect(signedOut.body).toContain('Signed out everywhere.');
    expect(await isSignedIn(agent)).toBe(false);

    const disableQuestion = await admin.get(`${site.url}/admin/users/${id}/disable`);
    const disabled = await admin.submit(disableQuestion, {}, { button: 'Disable user' });
    expect(disabled.body).toContain('The user is disabled');
  });
});

describe('the overview', () => {
  test('shows the stored numbers of sign-ins, connections and sessions without a script', async () => {
    await signIn(site);
    const { json } = await getJson(admin, `${site.url}/admin/api/overview?period=month`);
    const intervals = json.intervals as { counts: Record<string, number> }[];
    expect(intervals).toHaveLength(30);
    // Of the last two days, since a day may end during this file.
    const [yesterday = 0, today = 0] = intervals.slice(-2).map(({ counts }) => counts['sign_in.succeeded'] ?? 0);
    expect(yesterday + today).toBeGreaterThan(3);
    expect(json).toMatchObject({
      users: expect.any(Number),
      connections: { total: expect.any(Number), unverified: 0 },
    });
    const page = await admin.get(`${site.url}/admin`, { headers: { accept: 'text/html' } });
    expect(page.body).toMatch(/<table[^>]*id="sign-ins-table"/);
  });
});

describe('the audit trail', () => {
  test('R88: has sign-ins, refusals and changes, as NDJSON and as log lines', async () => {
    const page = await admin.get(`${site.url}/admin/api/audit?format=ndjson`);
    expect(page.headers.get('content-type')).toContain('application/x-ndjson');
    const entries = page.body
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
    const events = new Set(entries.map(({ event }) => event));
    for (const event of [
      'sign_in.succeeded',
      'sign_in.refused',
      'user.disabled',
      'connection.created',
      'connection.removed',
      'audit.exported',
    ])
      expect(events).toContain(event);
    const logged = site.logs().filter((line) => line.includes('"audit":{'));
    expect(logged.length).toBeGreaterThanOrEqual(entries.length);
    expect((await call('GET', 'audit?event=nothing.like.it')).status).toBe(400);
  });

  test('is exported by the command as NDJSON, with an entry', async () => {
    const { status, stdout, stderr } = await runCommand(['audit', 'export', '--from', '2020-01-01'], site.env);
    expect([status, stderr]).toEqual([0, '']);
    const entries = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
    expect(entries.map(({ event }) => event)).toContain('user.disabled');
    const exportEntry = entries.findLast(({ event }) => event === 'audit.exported');
    expect(exportEntry).toMatchObject({ actor: { kind: 'operator' } });
    expect((await runCommand(['audit', 'export', '--from', 'soon'], site.env)).stderr).toContain('Use a date');
  });
});
