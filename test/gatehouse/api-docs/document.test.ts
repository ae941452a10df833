/** The OpenAPI document: every route is in it, from the schemas that validate, and its page works with the CSP. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { ADMIN_ROUTES, ROUTES } from '../../support/routes.ts';
import { sendRequest } from '../../support/send-request.ts';

interface Document {
  openapi: string;
  servers: { url: string }[];
  paths: Record<
    string,
    Record<
      string,
      {
        summary: string;
        operationId: string;
        parameters?: { name: string; in: string }[];
        requestBody?: Body;
        responses: object;
        security: object[];
      }
    >
  >;
  components: { schemas: object; securitySchemes: Record<string, { name?: string }> };
}
interface Body {
  content: Record<string, { schema: { properties?: Record<string, unknown>; additionalProperties?: boolean } }>;
}

let site: TestSite;
let document: Document;
beforeAll(async () => {
  site = await startSite();
  document = JSON.parse((await sendRequest(`${site.url}/openapi.json`)).body);
});
afterAll(() => site.close());

/** Routes that only serve pages, which users reach by links. */
const PAGES = [
  'GET /',
  'GET /problems/:code',
  'GET /bin',
  'GET /connections/:app',
  'GET /connect/:link',
  'GET /docs',
  'GET /docs/:guide',
  'GET /account/delete',
  'GET /account/deleted',
];
const callName = ({ method, pattern }: { method: string; pattern: string }) => `${method} ${pattern.replace('*', ':')}`;
const documentedCalls = () =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1')}`),
  );

describe('the document', () => {
  test('is OpenAPI 3.1 with the URL of this site', () => {
    expect(document.openapi).toBe('3.1.0');
    expect(document.servers).toEqual([{ url: site.url }]);
  });

  test('names the session cookie of this site', () => {
    const { name } = document.components.securitySchemes.session ?? {};
    expect(name).toBe(`gatehouse.${new URL(site.url).port}`);
  });

  test('has every route except pages', () => {
    const admin = ADMIN_ROUTES.filter(({ pattern }) => pattern.startsWith('/admin/api/')).map(callName);
    const others = ROUTES.map(callName).filter((name) => !PAGES.includes(name));
    expect([...documentedCalls()].sort()).toEqual([...admin, ...others].sort());
  });

  test('names each call once, with its summary, credentials and problem response', () => {
    const calls = Object.values(document.paths).flatMap((methods) => Object.values(methods));
    expect(new Set(calls.map(({ operationId }) => operationId)).size).toBe(calls.length);
    for (const { summary, responses } of calls) {
      expect(summary.length).toBeGreaterThan(5);
      expect(Object.keys(responses)).toContain('default');
    }
  });

  test('names the parameters of each call of the administration', () => {
    const list = ['after', 'limit', 'q'];
    const timeline = ['after', 'limit', 'kind'];
    const range = ['period', 'from', 'to'];
    const queryParameters: Record<string, string[]> = {};
    for (const [path, methods] of Object.entries(document.paths)) {
      if (!path.startsWith('/admin/')) continue;
      for (const [method, { parameters = [] }] of Object.entries(methods)) {
        const names = parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name);
        if (names.length > 0) queryParameters[`${method} ${path.replace('/admin/api', '')}`] = names;
      }
    }
    expect(queryParameters).toEqual({
      ...{ 'get /overview': ['period'], 'get /search': ['q'], 'get /users': list, 'get /revocations': list },
      ...{ 'get /connected-apps': list, 'get /connected-apps/{id}': ['scopes'], 'get /connect-links': list },
      ...{ 'delete /connected-apps/{id}': ['version'], 'get /relay-tokens': [...list, 'app', 'scope', 'state'] },
      ...{ 'get /service-accounts': [...list, 'app'], 'get /webhooks': [...list, 'event', 'state'] },
      ...{
        'get /webhooks/{id}/messages': ['after', 'limit', 'state'],
        'get /admin-tokens': [...list, 'scope', 'state'],
      },
      ...{ 'get /sessions': [...list, 'user'], 'get /connections': [...list, 'app', 'health', 'scopes', 'user'] },
      'get /sign-ins': [...list, 'user', 'app', 'cause', 'outcome', ...range],
      'post /bin/uploads': ['asOf', 'source', 'licence', 'columns'],
      ...{ 'get /users/{id}/timeline': timeline, 'get /connected-apps/{id}/timeline': timeline },
      ...{ 'get /relay-tokens/{id}/timeline': timeline, 'post /bin/rollback': ['to'] },
      'get /audit': [...list, 'event', 'actor', 'target', ...range, 'format'],
    });
  });

  test.each(['relay-tokens', 'relay-tokens/{id}/rotate', 'webhooks', 'webhooks/{id}/rotate', 'admin-tokens'])(
    'R80 says that a secret is only in this response: POST %s',
    (path) => {
      expect(document.paths[`/admin/api/${path}`]?.post?.summary).toContain('only this response contains');
    },
  );

  test('R88 every change of the administration needs a token, or a session with the CSRF token', () => {
    const ofAdministration = Object.entries(document.paths).filter(([path]) => path.startsWith('/admin/'));
    for (const [path, methods] of ofAdministration) {
      for (const [method, { security }] of Object.entries(methods)) {
        const session = method === 'get' ? { session: [] } : { session: [], csrf: [] };
        expect(security, `${method} ${path}`).toEqual([{ adminToken: [] }, session]);
      }
    }
  });

  test('R82 every call of a service needs a relay token with the scope of its route', () => {
    const calls = Object.entries(document.paths).filter(([path]) => path.startsWith('/relay/'));
    const securityOfPaths = calls.map(([path, methods]) => [
      path,
      Object.values(methods).map(({ security }) => security),
    ]);
    const exchange = ['token:exchange'];
    expect(Object.fromEntries(securityOfPaths)).toMatchObject({
      '/relay/threads/current': [[{ relayToken: ['threads:read'] }]],
      '/relay/connections': [[{ relayToken: ['connections:read'] }]],
      '/relay/connect-links': [[{ relayToken: ['connect_links:create'] }]],
      '/relay/bin/{bin}': [[{ relayToken: ['bin:read'] }]],
      '/relay/bin': [[{ relayToken: ['bin:read'] }]],
      '/relay/token': [[{ relayToken: exchange }, { relayTokenAsPassword: exchange }]],
    });
    for (const [path, securities] of securityOfPaths) {
      for (const [first] of securities as [object][]) expect(first, String(path)).toHaveProperty('relayToken.0');
    }
  });

  test('names each error of an exchange, and what its parameters hold', () => {
    const { responses, requestBody } = document.paths['/relay/token']?.post ?? { responses: {} };
    for (const error of [
      ...['invalid_request', 'invalid_target', 'invalid_scope', 'unauthorized_client'],
      ...['unsupported_grant_type', 'invalid_client', 'temporarily_unavailable'],
    ]) {
      expect(JSON.stringify(responses)).toContain(`"${error}"`);
    }
    const { properties = {} } = requestBody?.content['application/x-www-form-urlencoded']?.schema ?? {};
    for (const name of ['subject_token', 'audience', 'resource', 'scope']) {
      expect(properties[name], name).toMatchObject({ description: expect.stringMatching(/.{10,}/) });
    }
  });

  test('R66 the reads of a user need a session, and the changes also the CSRF token', () => {
    const securities = (method: string) =>
      [
        '/threads/current',
        '/connections',
        '/sessions',
        '/session/verify',
        '/bin',
        '/sign-out',
        '/account/delete',
      ].flatMap((path) => document.paths[path]?.[method]?.security ?? []);
    expect(new Set(securities('get').map((security) => JSON.stringify(security)))).toEqual(new Set(['{"session":[]}']));
    expect(new Set(securities('post').map((security) => JSON.stringify(security)))).toEqual(
      new Set(['{"session":[],"csrf":[]}']),
    );
  });

  test('uses the schemas that validate requests: a refused field is not documented', () => {
    const create = document.paths['/admin/api/connected-apps']?.post?.requestBody?.content['application/json']?.schema;
    expect(create?.additionalProperties).toBe(false);
    expect(Object.keys(create?.properties ?? {})).toEqual(
      expect.arrayContaining(['callbackUrls', 'clientSecret', 'signIn']),
    );
    const responses = JSON.stringify(document.paths['/admin/api/connected-apps/{id}']?.get?.responses);
    expect(responses).toContain('hasClientSecret');
    expect(responses).not.toContain('"clientSecret"');
  });
});

describe('the page', () => {
  test('is rendered here, without scripts, styles or other resources from elsewhere', async () => {
    const { status, headers, body } = await sendRequest(`${site.url}/docs`);
    expect(status).toBe(200);
    expect(headers['content-security-policy']).toContain("script-src 'self'");
    expect(body).not.toMatch(/<script[^>]*>[^<]|<style|\son\w+=|style="/);
    for (const [, address = ''] of body.matchAll(/(?:src|href)="([^"]*)"/g)) expect(address).toMatch(/^[/#]/);
    for (const path of Object.keys(document.paths)) expect(body).toContain(`<code>${path}</code>`);
  });
});
