/** R104: one client address for limits, the audit trail, sessions, sign-in records and relay networks. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openStorageOf, type StorageAccess } from '../../gatehouse/grants/storage-access.ts';
import { type Administrator, assertionOf, createAdministrator, relayThread } from '../../gatehouse/relay/service.ts';
import { signIn, startSite, startWithoutSandbox, type TestGatehouse, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';

const from = (forwarded: string) => ({ 'x-forwarded-for': forwarded });

describe('R104 the limit by address behind a proxy', () => {
  let limited: TestGatehouse;
  beforeAll(async () => {
    limited = await startWithoutSandbox({
      apps: [],
      env: { TRUSTED_PROXIES: '127.0.0.1', RATE_LIMIT_PER_ADDRESS_PER_MINUTE: '20' },
    });
  });
  afterAll(() => limited.close());

  /** Returns the number of calls before one is refused. A new minute may begin during the calls. */
  const callsUntilRefused = async (forwarded: (n: number) => string) => {
    for (let n = 0; n < 60; n += 1) {
      const { status } = await sendRequest(`${limited.url}/session`, {
        headers: { ...ACCEPT_JSON, ...from(forwarded(n)) },
      });
      if (status === 429) return n;
    }
    return undefined;
  };

  test.each<[string, (n: number) => string]>([
    ['IPv4 with a port', (n) => `198.51.100.2:${40_000 + n}`],
    ['IPv6 in brackets with a port', (n) => `[2001:db8::1]:${40_000 + n}`],
    [
      'IPv6 in many spellings',
      (n) => ['2001:DB8:1::1', '[2001:db8:1:0::1]', '2001:db8:1::2', '2001:db8:1::1%eth0'][n % 4] ?? '',
    ],
    [
      'IPv4 in many spellings',
      (n) => ['198.51.100.3', '::ffff:198.51.100.3', '[::ffff:c633:6403]:1', ' 198.51.100.3 '][n % 4] ?? '',
    ],
    ['no address', (n) => ['unknown', `junk-${n}`, 'x'.repeat(9_000), '_hidden', '300.1.1.1'][n % 5] ?? ''],
  ])('counts as one: %s', async (_name, forwarded) => {
    expect(await callsUntilRefused(forwarded)).toBeGreaterThanOrEqual(20);
  });
});

test('R104 the log warns once about a proxy that is not in TRUSTED_PROXIES', async () => {
  const site = await startWithoutSandbox({ apps: [] });
  try {
    const warnings = () => site.logs().filter((line) => line.includes('TRUSTED_PROXIES'));
    await sendRequest(`${site.url}/session`, { headers: ACCEPT_JSON });
    expect(warnings()).toEqual([]);

    for (let n = 0; n < 3; n += 1)
      await sendRequest(`${site.url}/session`, { headers: { ...ACCEPT_JSON, ...from('203.0.113.9') } });
    expect(warnings().map((line) => JSON.parse(line))).toMatchObject([{ level: 40, msg: expect.any(String) }]);
    expect(warnings().join()).not.toContain('203.0.113.9');
  } finally {
    await site.close();
  }
});

describe('R104 the same address is in', () => {
  let site: TestSite;
  let storage: StorageAccess;
  let admin: Administrator;
  beforeAll(async () => {
    site = await startSite({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
    storage = await openStorageOf(site);
    admin = await createAdministrator(site, storage);
  });
  afterAll(async () => {
    await storage.close();
    await site.close();
  });
  const ODD = from('[::ffff:203.0.113.9]:4711');

  test.each([
    ['203.0.113.9', ODD],
    ['unknown', from('203.0.113.9, junk')],
  ])('the audit trail: %s', async (address, headers) => {
    const guess = { ...ACCEPT_JSON, ...headers, authorization: `Bearer gtha_${'x'.repeat(40)}` };
    expect((await sendRequest(`${site.url}/admin/api/users`, { headers: guess })).status).toBe(401);
    const entries = async () => (await admin.call('GET', '/audit?event=admin.refused')).json.items;
    await until(async () => JSON.stringify(await entries()).includes(`"address":"${address}"`));
  });

  test('the record of a sign-in', async () => {
    const { headers } = await sendRequest(`${site.url}/sign-in`, { headers: ODD });
    expect(headers.location).toBeDefined();
    const { json } = await admin.call('GET', '/sign-ins');
    expect((json.items as { address: string }[]).map(({ address }) => address)).toContain('203.0.113.9');
  });

  test('no record if the proxy sends no address: a token for the network of the proxy is refused', async () => {
    const { agent } = await signIn(site);
    const assertion = await assertionOf(site, agent.cookies.header(site.url));
    const { token } = await admin.createRelayToken({ networks: ['127.0.0.0/8'] });
    const statusWith = async (headers: Record<string, string>) =>
      (await relayThread(site, token, { ...headers, 'gatehouse-user-assertion': assertion })).status;
    expect(await statusWith({})).toBe(200);
    expect(await statusWith(from('198.51.100.7, unknown'))).toBe(403);
  });

  test('the networks of a relay token, which may be written as IPv6', async () => {
    const { agent } = await signIn(site);
    const assertion = await assertionOf(site, agent.cookies.header(site.url));
    const { token } = await admin.createRelayToken({ networks: ['::ffff:203.0.113.5', '198.51.100.0/24'] });
    const statusFrom = async (address: string) =>
      (await relayThread(site, token, { ...from(address), 'gatehouse-user-assertion': assertion })).status;
    expect(await statusFrom('203.0.113.5:1234')).toBe(200);
    expect(await statusFrom('198.51.100.77:80')).toBe(200);
    expect(await statusFrom('203.0.113.6')).toBe(403);
    expect(await statusFrom('junk')).toBe(403);
  });
});
