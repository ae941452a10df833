/** F29: what 1.0.0 has stored is read by this program, on SQLite and on Redis: data of every kind, and unfinished work. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openBinServiceStore, readBinServiceSettings } from '../../src/bin-lookup-service/start.ts';
import { kindOf } from '../../src/shared/storage/keys.ts';
import type { Store } from '../../src/shared/storage/store.ts';
import { command, startBinProcess } from '../bin-lookup-service/site.ts';
import { bearer } from '../gatehouse/relay/service.ts';
import { openSharedStorage, type StoreKind } from '../support/fleet.ts';
import { startWithoutSandbox, type TestGatehouse } from '../support/gatehouse.ts';
import { skipIfMissing } from '../support/missing.ts';
import { missingRedis } from '../support/redis-server.ts';
import { ACCEPT_JSON, FORM_BODY, JSON_BODY, sendRequest } from '../support/send-request.ts';
import { advanceClock, resetClock } from '../support/test-clock.ts';
import { until } from '../support/until.ts';
import { isSigned } from '../support/webhook-receiver.ts';
import { storedKinds } from '../surface/stored-kinds.ts';
import { appOf, binSettings, KEY_LISTS, PORT, SETTINGS, URL_OF } from './deployment.ts';
import { type Provider, startProvider } from './provider.ts';
import { openStoredData, type StoredData } from './stored-data.ts';

/** Of these, one exists only while a command fills a storage, and the others end within a minute. */
const NOT_STORED = ['out-of-service', 'narrowing', 'awaited-refresh', 'submission', 'flash'];

describe.each<StoreKind>(['SQLite', 'Redis'])('F29 the data of a release on %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let data: StoredData;
  let provider: Provider;
  let site: TestGatehouse;
  let kinds: Set<string>;
  beforeAll(async () => {
    if (missing) return;
    data = await openStoredData(kind);
    advanceClock((Date.parse(data.facts.storedAt) - Date.now()) / 1000);
    const { store } = await openSharedStorage({ ...data.env, ENCRYPTION_KEYS: KEY_LISTS.rotating });
    const binStore = await openBinServiceStore(readBinServiceSettings(data.binEnv));
    kinds = new Set([...(await kindsIn(store)), ...(await kindsIn(binStore))]);
    provider = await startProvider();
    site = await startWithoutSandbox({
      port: PORT,
      apps: [appOf('platform'), appOf('third')],
      env: { ...SETTINGS, ENCRYPTION_KEYS: KEY_LISTS.rotating, ...data.env },
    });
  });
  afterAll(async () => {
    await site?.close();
    await provider?.close();
    await data?.close();
    resetClock();
  });
  const check = (name: string, work: () => Promise<void>) =>
    test(name, async (context) => {
      skipIfMissing(context, missing);
      await work();
    });

  const get = async (name: string, path: string) => {
    const headers = { ...ACCEPT_JSON, cookie: data.facts.cookies[name] ?? '' };
    const { status, body } = await sendRequest(new URL(path, site.url).href, { headers });
    return { status, json: JSON.parse(body) };
  };
  const admin = async (path: string, method = 'GET', content?: object) => {
    const { status, body } = await sendRequest(`${site.url}/admin/api${path}`, {
      method,
      headers: { ...bearer(data.facts.adminToken), ...JSON_BODY },
      ...(content && { body: JSON.stringify(content) }),
    });
    return { status, json: body === '' ? {} : JSON.parse(body) };
  };
  const healthOf = async (name: string) => (await get(name, '/connections')).json.items[0].health;

  check('have every kind of record, index, counter and log', async () => {
    const expected = storedKinds().filter((name) => !name.startsWith('lease ') && !NOT_STORED.includes(name));
    expect(expected.filter((name) => !kinds.has(name))).toEqual([]);
  });

  check('sessions last, and those that had ended stay ended', async () => {
    for (const name of ['admin', 'user', 'second', 'lost', 'unclear', 'waiting', 'fresh'])
      expect([name, (await get(name, '/session')).json.user?.id]).toEqual([name, data.facts.userIds[name]]);
    for (const name of ['gone', 'leaving'])
      expect([name, (await get(name, '/session')).json.signedIn]).toEqual([name, false]);
  });

  check('grants are used, refreshed and recovered by their state', async () => {
    expect(await healthOf('fresh')).toBe('active');
    expect((await get('fresh', '/threads/current')).status).toBe(200);
    const before = provider.tokenRequests.length;
    // The process was killed before it had the response, or while another process refreshed.
    for (const name of ['user', 'waiting']) {
      expect([name, (await get(name, '/threads/current')).status]).toEqual([name, 200]);
      expect([name, await healthOf(name)]).toEqual([name, 'active']);
    }
    expect(provider.tokenRequests.length).toBeGreaterThanOrEqual(before);
    expect(await healthOf('lost')).toBe('reconnect_needed');
    expect((await get('lost', '/threads/current')).json.code).toBe('reconnect_needed');
    expect(await healthOf('unclear')).toBe('unverified');
  });

  check('an app in the storage has its connections', async () => {
    expect((await admin('/connected-apps/second')).json.clientId).toBe('test-second');
    expect((await get('second', '/threads/current?app=second')).status).toBe(200);
    const { items } = (await admin('/connections?app=second')).json;
    expect(items).toHaveLength(1);
  });

  check('a link can be followed', async () => {
    const { status, body } = await sendRequest(data.facts.linkUrl, {
      headers: { accept: 'text/html', cookie: data.facts.cookies.fresh ?? '' },
    });
    expect([status, body]).toEqual([200, expect.stringContaining('Connect')]);
    const csrf = (await get('fresh', '/session')).json.csrfToken;
    const response = await sendRequest(data.facts.linkUrl, {
      ...{ method: 'POST', body: `_csrf=${csrf}` },
      headers: { ...FORM_BODY, accept: 'text/html', cookie: data.facts.cookies.fresh ?? '' },
    });
    expect([response.status, response.headers.location]).toEqual([
      303,
      expect.stringContaining(`${URL_OF.issuer}/auth?`),
    ]);
  });

  check('services are known, and a pending message is delivered', async () => {
    const listed = await sendRequest(`${site.url}/relay/connections`, { headers: bearer(data.facts.relayToken) });
    expect(JSON.parse(listed.body).items.length).toBeGreaterThan(3);
    expect((await admin('/service-accounts')).json.items).toMatchObject([{ name: 'Nightly', app: 'platform' }]);
    const { id, app } = (await admin('/service-accounts')).json.items[0];
    const called = await sendRequest(`${site.url}/relay/threads/current?app=${app}`, {
      headers: { ...bearer(data.facts.relayToken), 'gatehouse-service-account': id },
    });
    expect(called.status).toBe(200);
    advanceClock(600);
    await until(() => provider.messages.some(({ body }) => JSON.parse(body).type === 'connection.reconnect_needed'));
    for (const message of provider.messages) expect(isSigned(message, data.facts.webhookSecret)).toBe(true);
  });

  check('work that was under way is finished', async () => {
    await until(async () => (await admin('/connected-apps/third/disconnect-everyone')).json.finishedAt !== null);
    await until(async () => (await admin(`/users/${data.facts.userIds.leaving}`)).status === 404);
    await until(async () => (await admin('/revocations')).json.items.length === 0);
    expect(provider.revoked.length).toBeGreaterThan(1);
  });

  check('a form that was kept for a page is shown', async () => {
    const page = async (path: string) =>
      (
        await sendRequest(new URL(path, site.url).href, {
          headers: { accept: 'text/html', cookie: data.facts.cookies.admin ?? '' },
        })
      ).body;
    expect(await page(data.facts.formPath)).toContain('https://kept.example.com/');
  });

  check('BIN data, an upload, and cached responses are read', async () => {
    expect((await get('fresh', '/bin/45717360')).json).toMatchObject({ bank: { name: 'Jyske Bank' } });
    expect((await get('fresh', '/bin/40001234')).json).toMatchObject({ country: { alpha2: 'DK' } });
    expect((await admin(`/bin/uploads/${data.facts.uploadId}/import`, 'POST', {})).json).toMatchObject({
      source: 'third',
    });
    expect((await admin('/bin/rollback', 'POST', {})).json).toMatchObject({ source: 'second' });
  });

  check('the audit trail and the record of sign-ins are read', async () => {
    const events = new Set((await admin('/audit?limit=200')).json.items.map(({ event }: { event: string }) => event));
    for (const event of [
      'sign_in.succeeded',
      'connection.created',
      'relay_token.created',
      'encryption_key.rotated',
      'webhook.created',
    ])
      expect(events).toContain(event);
    expect((await admin('/sign-ins?limit=200')).json.items.length).toBeGreaterThan(10);
    expect((await admin('/overview?period=day')).status).toBe(200);
    expect(JSON.parse((await sendRequest(`${site.url}/.well-known/jwks.json`)).body)).toEqual(
      JSON.parse(data.facts.jwks),
    );
  });

  check('the rotation is finished, and the last key opens everything', async () => {
    await until(async () => (await admin('/keys')).json.rotation.finishedAt !== null);
    expect((await admin('/keys')).json.rotation).toMatchObject({ failure: null, unreadable: {} });
    Object.assign(site.env, { ENCRYPTION_KEYS: KEY_LISTS.last });
    await site.restart();
    expect((await get('fresh', '/threads/current')).status).toBe(200);
    expect((await admin('/webhooks')).json.items).toHaveLength(1);
  });

  check('the BIN lookup service knows its accounts and orders', async () => {
    const env = { ...(await binSettings()), ...data.binEnv };
    const { program, url } = await startBinProcess(env);
    const lookUp = async () =>
      (await sendRequest(`${url}/45717360`, { headers: { authorization: `Bearer ${data.facts.binKey}` } })).status;
    expect(await lookUp()).toBe(403);
    const [order] = JSON.parse((await command(env, 'plan', 'requests', '--json')).out);
    expect((await command(env, 'plan', 'confirm', order.account)).status).toBe(0);
    await until(async () => (await lookUp()) === 200);
    program.signal('SIGTERM');
    await program.ended;
  });
});

/** Returns the kinds of a storage, with the form of those that are no records. */
async function kindsIn(store: Store): Promise<string[]> {
  const items = (await Array.fromAsync(store.dump())).flat();
  await store.close();
  return items.map((item) => {
    if ('record' in item) return kindOf(item.record);
    if ('index' in item) return `index ${kindOf(item.index)}`;
    return 'counter' in item ? `counter ${kindOf(item.counter)}` : `log ${kindOf(item.log)}`;
  });
}
