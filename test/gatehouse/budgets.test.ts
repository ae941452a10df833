/** R137: a caller without a session spends what is its own. Every check takes the routes from the table. */
import type { RequestHandler } from 'express';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { EXCHANGE_GRANT_TYPE, SUBJECT_TOKEN_TYPES } from '../../src/gatehouse/relay/token-exchange.ts';
import { readBody } from '../../src/shared/http/body.ts';
import { requiringUser } from '../../src/shared/http/description.ts';
import {
  COSTS_NOTHING,
  type FastPathGuard,
  type FastPathHandler,
  type Route,
} from '../../src/shared/http/route-table.ts';
import { signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { type ListedRoute, listed, ROUTE_TABLE } from '../support/routes.ts';
import {
  ACCEPT_JSON,
  FORM_BODY,
  JSON_BODY,
  type ReceivedResponse,
  type RequestDetails,
  sendRequest,
} from '../support/send-request.ts';
import { until } from '../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from './grants/storage-access.ts';
import { type Administrator, createAdministrator } from './relay/service.ts';

const nameOf = ({ method, pattern }: ListedRoute) => `${method} ${pattern}`;
const budgetOf = (route: (typeof ROUTE_TABLE)[number]) => route[4]?.budget;
const BUDGETED = ROUTE_TABLE.filter((route) => ![undefined, COSTS_NOTHING].includes(budgetOf(route))).map(listed);
const WITHOUT_BUDGET = ROUTE_TABLE.filter((route) => budgetOf(route) === undefined).map(listed);

test('R137 a route that callers without a session reach does not compile without a budget', () => {
  const handler: RequestHandler = () => undefined;
  const fastPathHandler: FastPathHandler = async () => undefined;
  const anyone: RequestHandler = (_req, _res, next) => next();
  const service: FastPathGuard = async () => undefined;
  const user = requiringUser<RequestHandler>([], anyone);
  const fastPathUser = requiringUser<FastPathGuard>([], service);
  const routes: Route[] = [
    // @ts-expect-error anonymous callers reach it, and it has no budget.
    ['GET', '/no-guard', [], handler],
    // @ts-expect-error as above
    ['GET', '/guard-for-anyone', anyone, handler],
    // @ts-expect-error as above: only the second guard requires a user.
    ['POST', '/late-guard', [anyone, user], handler],
    // @ts-expect-error services reach it, and it has no budget.
    ['POST', '/relay/changes', [anyone, readBody], handler, { proxied: true }],
    // @ts-expect-error as above
    ['GET', '/relay/relayed', [service, service], fastPathHandler, { fastPath: true }],
    ['GET', '/no-guard', [], handler, { budget: COSTS_NOTHING }],
    ['GET', '/relay/relayed', service, fastPathHandler, { fastPath: true, budget: COSTS_NOTHING }],
    ['GET', '/guard-for-users', user, handler],
    ['POST', '/guard-for-users', [user, readBody], handler],
    ['GET', '/relayed', fastPathUser, fastPathHandler, { fastPath: true }],
  ];
  expect(routes).toHaveLength(10);
});

/** Requests of one caller: an anonymous one at an address, a user, or a service. */
interface Caller {
  send(path: string, options: RequestDetails): Promise<ReceivedResponse>;
}

interface Flood {
  caller(address: string): Promise<Caller>;
  options: RequestDetails;
  query?: string;
  /** How many requests a caller may send in a minute. */
  limit: number;
  /** The status of a request within the limit. */
  served: number;
}

describe('R137 over HTTP', () => {
  const SIGN_INS = 40;
  /** All of one user's calls to the platform stay below the limits of the sandbox. */
  const REQUESTS = 12;
  let site: TestSite;
  let storage: StorageAccess;
  let admin: Administrator;
  let userId: string;
  beforeAll(async () => {
    site = await startSite({
      env: {
        ADMIN_APP: 'platform',
        TRUSTED_PROXIES: '127.0.0.1',
        RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: String(SIGN_INS),
        RATE_LIMIT_PER_SESSION_PER_MINUTE: String(REQUESTS),
        RATE_LIMIT_PER_RELAY_TOKEN_PER_MINUTE: String(REQUESTS),
      },
    });
    storage = await openStorageOf(site);
    admin = await createAdministrator(site, storage);
    ({ userId } = await sessionOf(site, (await signIn(site)).agent));
  });
  afterAll(async () => {
    await storage?.close();
    await site?.close();
  });
  afterEach(() => void vi.useRealTimers());

  test('a route without a budget refuses callers without credentials', async () => {
    const reached: string[] = [];
    for (const route of WITHOUT_BUDGET) {
      const { status } = await sendRequest(site.url + route.path, { method: route.method, headers: ACCEPT_JSON });
      if (status !== 401) reached.push(`${nameOf(route)}: ${status}`);
    }
    expect(reached).toEqual([]);
  });

  const callerAt = (address: string, credentials: Record<string, string> = {}): Caller => ({
    send: (path, { headers, ...options }) =>
      sendRequest(site.url + path, {
        ...options,
        headers: { ...ACCEPT_JSON, ...headers, ...credentials, 'x-forwarded-for': address },
      }),
  });
  const anonymous = async (address: string) => callerAt(address);
  const service = async (address: string) => {
    const { token } = await admin.createRelayToken({ assertUser: true, networks: [] });
    return callerAt(address, { authorization: `Bearer ${token}` });
  };
  const user = async (address: string, email = 'user@example.test') => {
    const { agent } = await signIn(site, email);
    const { csrfToken } = await sessionOf(site, agent);
    return callerAt(address, { cookie: agent.cookies.header(site.url), 'x-csrf-token': csrfToken });
  };

  const form = (fields: Record<string, string> = {}): RequestDetails => ({
    method: 'POST',
    headers: FORM_BODY,
    body: new URLSearchParams(fields).toString(),
  });
  const json = (body: unknown): RequestDetails => ({ method: 'POST', headers: JSON_BODY, body: JSON.stringify(body) });
  const bins = json({ bins: ['45717360'] });
  const ofUser = { caller: user, limit: REQUESTS, served: 200 };
  const ofService = { caller: service, limit: REQUESTS, served: 200 };
  const start = { caller: user, limit: SIGN_INS, options: form() };
  /** These requests are refused, because the current thread has no parameters and no other method, but they count. */
  const declaredFloods = (
    prefix: string,
    caller: Omit<Flood, 'options'>,
    headersOf = (): Record<string, string> => ({}),
  ): Record<string, () => Flood> => ({
    [`GET ${prefix}/:app`]: () => ({ ...caller, options: {} }),
    [`GET ${prefix}/:app/*platformPath`]: () => ({
      ...caller,
      options: { headers: headersOf() },
      query: '?undeclared=1',
      served: 400,
    }),
    ...Object.fromEntries(
      ['POST', 'PUT', 'PATCH', 'DELETE'].map((method) => [
        `${method} ${prefix}/:app/*platformPath`,
        () => ({ ...caller, options: { method, headers: headersOf() }, served: 405 }),
      ]),
    ),
  });
  const floods: Record<string, () => Flood> = {
    'GET /threads/current': () => ({ ...ofUser, options: {} }),
    // Each sign-in calls the platform for the start page, so these are of another user.
    ...declaredFloods('/api', { ...ofUser, caller: (address) => user(address, 'second@example.test') }),
    ...declaredFloods('/relay/api', ofService, () => ({ 'gatehouse-user': userId })),
    'GET /bin/:bin': () => ({ ...ofUser, options: {} }),
    'GET /bin': () => ({ ...ofUser, options: {} }),
    'POST /bin': () => ({ ...ofUser, options: bins }),
    'GET /relay/threads/current': () => ({ ...ofService, options: { headers: { 'gatehouse-user': userId } } }),
    'GET /relay/bin/:bin': () => ({ ...ofService, options: {} }),
    'POST /relay/bin': () => ({ ...ofService, options: bins }),
    'POST /relay/token': () => ({
      ...ofService,
      options: form({
        grant_type: EXCHANGE_GRANT_TYPE,
        subject_token: userId,
        subject_token_type: SUBJECT_TOKEN_TYPES.user,
      }),
    }),
    'GET /relay/connections': () => ({ ...ofService, options: {} }),
    'POST /relay/connect-links': () => ({
      ...ofService,
      options: json({ userId, app: 'platform' }),
      served: 201,
    }),
    'GET /sign-in': () => ({ caller: anonymous, limit: SIGN_INS, options: {}, served: 200 }),
    'POST /connections/:app': () => ({ ...start, served: 200 }),
    // There is no such link, and the user is no administrator, but both requests count.
    'POST /connect/:link': () => ({ ...start, served: 404 }),
    'POST /admin/connected-apps/:id/try': () => ({ ...start, served: 403 }),
    // Refused, because no sign-in was started.
    'GET /oauth/callback/:app': () => ({
      caller: anonymous,
      limit: 2 * SIGN_INS,
      options: {},
      query: '?code=c&state=s',
      served: 400,
    }),
    'POST /oauth/callback/:app': () => ({
      caller: anonymous,
      limit: 2 * SIGN_INS,
      options: form({ code: 'c', state: 's' }),
      served: 400,
    }),
    'POST /oauth/backchannel-logout/:app': () => ({ caller: anonymous, limit: 100, options: form(), served: 400 }),
  };

  test.each(BUDGETED.map((route, index) => [nameOf(route), route.path, index] as const))(
    'a caller who floods gets 429, and the one beside it is served: %s',
    async (name, path, index) => {
      const { caller, options, query = '', limit, served } = floods[name]?.() ?? unknownFlood(name);
      const [flooder, other] = [await caller(`198.51.100.${index}`), await caller(`203.0.113.${index}`)];
      // All requests fall into the same minute.
      vi.useFakeTimers({ toFake: ['Date'] });
      for (let count = 0; count < limit; count += 1)
        expect((await flooder.send(path + query, options)).status).toBe(served);
      const refused = await flooder.send(path + query, options);
      expect([refused.status, JSON.parse(refused.body).code]).toEqual([429, 'rate_limited']);
      expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
      expect((await other.send(path + query, options)).status).toBe(served);
    },
  );

  test('hidden frames of another site use up no sign-ins of their address', async () => {
    const frame = { 'sec-fetch-dest': 'iframe', 'sec-fetch-mode': 'navigate', 'sec-fetch-site': 'cross-site' };
    const browser = callerAt('198.51.100.202');
    vi.useFakeTimers({ toFake: ['Date'] });
    for (let count = 0; count <= SIGN_INS; count += 1)
      expect((await browser.send('/sign-in', { headers: frame })).status).toBe(403);
    expect((await browser.send('/sign-in', {})).status).toBe(200);
  });

  test('calls that the policy refuses count for the relay token', async () => {
    const { token } = await admin.createRelayToken({ scopes: ['bin:read'] });
    const headers = { ...ACCEPT_JSON, authorization: `Bearer ${token}` };
    const paths = ['/relay/connections', '/relay/threads/current'];
    vi.useFakeTimers({ toFake: ['Date'] });
    const statuses: number[] = [];
    for (let count = 0; count <= REQUESTS; count += 1)
      statuses.push((await sendRequest(site.url + paths[count % 2], { headers })).status);
    expect(statuses).toEqual([...Array(REQUESTS).fill(403), 429]);
  });

  test('a relay token that is sent with the id of another counts as a wrong token of its address', async () => {
    const { token } = await admin.createRelayToken({ networks: [] });
    const authorization = `Basic ${Buffer.from(`another:${token}`).toString('base64')}`;
    const caller = callerAt('198.51.100.201', { authorization });
    vi.useFakeTimers({ toFake: ['Date'] });
    const statuses: number[] = [];
    for (let count = 0; count <= 100; count += 1) statuses.push((await caller.send('/relay/token', form())).status);
    expect(statuses).toEqual([...Array(100).fill(401), 429]);
  });

  test('refusals of one address leave another address its entry in the audit trail', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const refuse = (address: string) => callerAt(address).send('/oauth/backchannel-logout/platform', form());
    for (let count = 0; count < 90; count += 1) await refuse('198.51.100.200');
    const { headers } = await refuse('203.0.113.200');
    const entriesWith = (text: string) =>
      site.logs().filter((line) => line.includes('"audit":') && line.includes(text));
    await until(async () => entriesWith(String(headers['x-request-id'])).length === 1);
    expect(entriesWith('198.51.100.200')).toHaveLength(20);
  });
});

function unknownFlood(name: string): never {
  throw new Error(`Add ${name} to floods.`);
}
