/** R88: every operation that serves data refuses unknown parameters and members. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openStorageOf } from '../../gatehouse/grants/storage-access.ts';
import { bearer, createAdministrator, PERMISSIVE_POLICY } from '../../gatehouse/relay/service.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ADMIN_ROUTES, type ListedRoute, PROVIDER_ROUTE, ROUTES } from '../../support/routes.ts';
import { ACCEPT_JSON, FORM_BODY, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { createAdminToken } from '../../support/terminal.ts';

let site: TestSite;
let userHeaders: Record<string, string>;
let serviceHeaders: Record<string, string>;
let administratorHeaders: Record<string, string>;
let documented: Record<string, Record<string, { parameters?: { name: string; in: string }[]; requestBody?: unknown }>>;
beforeAll(async () => {
  site = await startSite({
    env: { ADMIN_APP: 'platform', RATE_LIMIT_PER_ADDRESS_PER_MINUTE: '0', RATE_LIMIT_PER_SESSION_PER_MINUTE: '0' },
  });
  const storage = await openStorageOf(site);
  const admin = await createAdministrator(site, storage);
  serviceHeaders = bearer((await admin.createRelayToken(PERMISSIVE_POLICY)).token);
  await storage.close();
  administratorHeaders = bearer(await createAdminToken(site));
  const { agent } = await signIn(site);
  const { csrfToken } = (await getJson(agent, `${site.url}/session`)).json;
  userHeaders = { ...ACCEPT_JSON, cookie: agent.cookies.header(site.url), 'x-csrf-token': String(csrfToken) };
  documented = JSON.parse((await sendRequest(`${site.url}/openapi.json`)).body).paths;
});
afterAll(() => site.close());

const pathOf = (pattern: string) => pattern.replaceAll(/[:*](\w+)/g, '{$1}');
const operationOf = ({ method, pattern }: ListedRoute) => documented[pathOf(pattern)]?.[method.toLowerCase()];

/** Standards require these to ignore unknown parameters. */
const IGNORING_ROUTES = new Set(['/relay/token', PROVIDER_ROUTE]);
/** Pages and redirects: links may have parameters of other programs. */
const BROWSER_ROUTES = /^\/(sign-in|oauth\/callback\/:app|sign-out(\/everywhere)?|connections\/:app|connect\/:link)$/;

/** The declared route says which parameters a call may have (test/gatehouse/platform/api-http.test.ts). */
const isDeclared = (pattern: string) => pattern.endsWith('*platformPath');

const isData = ({ pattern }: ListedRoute) =>
  !IGNORING_ROUTES.has(pattern) && !isDeclared(pattern) && !BROWSER_ROUTES.test(pattern);
const API = ADMIN_ROUTES.filter(({ pattern }) => pattern.startsWith('/admin/api'));

function credentialsFor({ pattern }: ListedRoute): Record<string, string> {
  if (pattern.startsWith('/admin/api')) return administratorHeaders;
  return pattern.startsWith('/relay/') ? serviceHeaders : userHeaders;
}

const label = (route: ListedRoute) => [`${route.method} ${route.pattern}`, route] as const;

describe('R88 an unknown parameter is refused by', () => {
  test.each([...ROUTES.filter(isData), ...API].map(label))('%s', async (_name, route) => {
    if (!operationOf(route)) return;
    const headers = { ...credentialsFor(route), ...(route.method === 'GET' ? {} : JSON_BODY) };
    const { status, body } = await sendRequest(`${site.url}${route.path}?zq_unknown=1`, {
      method: route.method,
      headers,
    });
    expect([status, body]).toEqual([400, expect.stringContaining('Remove unknown names: \\"zq_unknown\\"')]);
  });
});

describe('R88 an unknown member is refused by', () => {
  const changes = [...ROUTES.filter(isData), ...API].filter(({ method }) => method !== 'GET');
  test.each(changes.map(label))('%s', async (_name, route) => {
    if (!operationOf(route)) return;
    const headers = { ...credentialsFor(route), ...JSON_BODY };
    const { status, body } = await sendRequest(site.url + route.path, {
      method: route.method,
      headers,
      body: JSON.stringify({ zq_unknown: 1 }),
    });
    expect(status).toBe(400);
    expect(body).toMatch(/zq_unknown|Leave the body out|Send \{|text\/csv/);
  });
});

test('R88 a call with an unknown member does not roll back a data set', async () => {
  const { status, body } = await sendRequest(`${site.url}/admin/api/bin/rollback`, {
    method: 'POST',
    headers: { ...administratorHeaders, ...JSON_BODY },
    body: JSON.stringify({ to: 'nonsense' }),
  });
  expect([status, body]).toEqual([400, expect.stringContaining('\\"to\\"')]);
});

test('R88 a chunked body, whose members are not known before it is read, is refused with 411', async () => {
  const response = await fetch(`${site.url}/admin/api/bin/rollback`, {
    method: 'POST',
    headers: { ...administratorHeaders, ...JSON_BODY },
    body: new Blob([JSON.stringify({ to: 'nonsense' })]).stream(),
    duplex: 'half',
  } as RequestInit);
  expect([response.status, await response.text()]).toEqual([411, expect.stringContaining('Content-Length')]);
});

test.each(['Audience=reports', 'audience%5B%5D=reports', 'audience=reports&x=1'])(
  'R99 no assertion is issued for %s',
  async (query) => {
    const page = { ...userHeaders, accept: 'text/html,*/*;q=0.8' };
    for (const headers of [userHeaders, page]) {
      const response = await sendRequest(`${site.url}/session/verify?${query}`, { headers });
      expect([response.status, response.headers['gatehouse-user-assertion']]).toEqual([400, undefined]);
    }
  },
);

test('pages ignore unknown parameters, scripts may send none, and programs may send an empty form', async () => {
  const page = await sendRequest(`${site.url}/connections?utm_source=mail`, {
    headers: { ...userHeaders, accept: 'text/html' },
  });
  expect(page.status).toBe(200);
  const start = (accept: string) => sendRequest(`${site.url}/sign-in?utm_source=mail`, { headers: { accept } });
  expect([(await start('text/html')).status, (await start('application/json')).status]).toEqual([303, 400]);
  const end = await sendRequest(`${site.url}/sessions/Nobodys-session_/end`, {
    method: 'POST',
    headers: { ...userHeaders, ...FORM_BODY },
    body: '',
  });
  expect(end.status).toBe(404);
});
