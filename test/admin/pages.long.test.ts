/**
 * Every page of the administration as an administrator reads it, and what comes of each change. The expected texts are in
 * the folder `pages`; after an intended change of a page, `npm run t -- test/admin/pages.long.test.ts -u` writes them again.
 */
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createConnectionIndex } from '../../src/grants/connection-index.ts';
import type { RefreshFailure } from '../../src/grants/grant.ts';
import { bearer } from '../relay/service.ts';
import { ask } from '../support/ask.ts';
import type { Page } from '../support/browserless.ts';
import { getJson, signIn } from '../support/gatehouse.ts';
import { outlineOf } from '../support/outline.ts';
import { until } from '../support/until.ts';
import { DAY_MS, type FilledSite, inDays, pass, startFilledSite } from './filled-site.ts';

/** For each test: what one changes is in no other's pages. */
let filled: FilledSite;
beforeEach(async () => {
  filled = await startFilledSite();
  await filled.untilCounted();
});
afterEach(() => filled?.close());

const isWritten = (text: string, name: string) =>
  expect(text).toMatchFileSnapshot(join(import.meta.dirname, 'pages', `${name}.txt`));

/** By the file that has their texts. */
const PAGES: Readonly<Record<string, readonly string[]>> = {
  overview: ['?range=week'],
  users: ['users', 'users?q=uma%20o', 'users?q=nobody', 'users/{uma}', 'users/{uma}?kind=relay', 'users/{ada}'],
  'users-questions': ['users/{uma}/sign-out', 'users/{uma}/disable', 'users/{ada}/disable', 'users/{uma}/delete'],
  sessions: [
    ...['sessions', 'sessions?q=nobody', 'sessions/{session}/end', 'sessions/{ownSession}/end'],
    'sessions/end?id={session}&id={ownSession}',
  ],
  'connected-apps': [
    ...['connected-apps', 'connected-apps?q=nobody', 'connected-apps/platform', 'connected-apps/second'],
    ...['connected-apps/second/check', 'connected-apps/second/disable', 'connected-apps/second/delete'],
    'connected-apps/second/disconnect-everyone',
  ],
  'register-app': ['register-app', 'register-app?preset=auth0'],
  connections: [
    ...['connections', 'connections?app=second', 'connections?health=in_doubt', 'connections?q=nobody'],
    ...['connections/{uma}.second/end', 'connections/end?id={uma}.second&id={uma}.platform'],
  ],
  'connect-links': ['connect-links', 'connect-links?q=nobody', 'connect-links/{link}/revoke'],
  bin: ['bin', 'bin/import'],
  'relay-tokens': [
    ...['relay-tokens', 'relay-tokens?q=nobody', 'relay-tokens?state=expiring', 'relay-tokens?app=second'],
    ...['relay-tokens?scope=bin:read', 'relay-tokens/{reports}', 'relay-tokens/{nightly}', 'relay-tokens/new'],
    ...['relay-tokens/{nightly}/edit', 'relay-tokens/{nightly}/rotate', 'relay-tokens/{nightly}/revoke'],
    'relay-tokens/revoke?id={nightly}&id={reports}',
  ],
  policy: [
    ...['policy', 'relay-tokens/{nightly}/test'],
    'policy?token={reports}&route=threads:read&app=platform&user={uma}&address=127.0.0.1&proof=assertion',
    'policy?token={reports}&route=token:exchange&app=second&user=nobody@example.test&address=10.0.0.1&proof=none',
  ],
  'service-accounts': [
    ...['service-accounts', 'service-accounts?q=nobody', 'service-accounts/new', 'service-accounts/{account}/replace'],
    'service-accounts/{account}/remove',
  ],
  webhooks: [
    ...['webhooks', 'webhooks?q=nobody', 'webhooks/{webhook}', 'webhooks/{webhook}?state=given_up', 'webhooks/new'],
    ...['webhooks/{webhook}/messages/{message}', 'webhooks/{webhook}/remove'],
  ],
  'sign-ins': ['sign-ins', 'sign-ins?failed=true', 'sign-ins?q=nobody@example.test', 'sign-ins/{signIn}'],
  audit: [
    // The link and the call that made it are of one moment, in either order.
    ...['audit?to=2031-03-05T10:13:00Z', 'audit?event=connect_link.created', 'audit?who={uma}', 'audit?text=nobody'],
    'audit?whom={webhook}',
  ],
  keys: ['keys', 'keys/rotate-encryption'],
  'admin-tokens': [
    ...['admin-tokens', 'admin-tokens?scope=write', 'admin-tokens?q=nobody', 'admin-tokens/new'],
    ...['admin-tokens/{terraform}/revoke', 'admin-tokens/revoke?id={terraform}&id={test}'],
  ],
  search: ['search?q=uma%20o', 'search?q=reports', 'search?q=second', 'search?q=nobody', 'search'],
};

const LISTS = [
  ...['users', 'sessions', 'connected-apps', 'connections', 'connect-links', 'relay-tokens', 'service-accounts'],
  ...['webhooks', 'webhooks/{webhook}', 'sign-ins', 'audit?to=2031-03-05T10:13:00Z', 'admin-tokens'],
];

test('every page says this, and every list is exported as this', async () => {
  const { agent, site, clean, pathOf } = filled;
  const open = (path: string) => agent.get(`${site.url}/admin/${pathOf(path)}`);
  const written = async (path: string) => {
    const { status, body, visited } = await open(path);
    if (visited.length > 1) return clean(`=== /admin/${path}: leads to ${visited.at(-1)}\n`);
    return `=== /admin/${path}: ${status}\n${clean(outlineOf(body))}`;
  };
  for (const [name, paths] of Object.entries(PAGES)) {
    const texts: string[] = [];
    for (const path of paths) texts.push(await written(path));
    await isWritten(texts.join('\n'), name);
  }
  await isWritten(clean(outlineOf((await open('users?q=nobody')).body, 'body')), 'frame');

  const exports: string[] = [];
  for (const list of LISTS) {
    const { headers, body } = await open(`${list}${list.includes('?') ? '&' : '?'}format=csv`);
    exports.push(`=== ${list}: ${headers.get('content-disposition')}\n${clean(body.replaceAll('\r\n', '\n'))}`);
  }
  await isWritten(exports.join('\n'), 'csv');
});

const READS = [
  ...['overview?range=week', 'search?q=uma%20o', 'search?q=nightly', 'search?q=terraform', 'search?q=batch'],
  ...['search?q=hook', 'search?q=keys', 'search?q={uma}.platform', 'search?q={session}', 'search?q={link}'],
  ...['search?q=second', 'connected-apps', 'connected-apps/second', 'connected-apps/second/timeline'],
  ...['relay-tokens', 'relay-tokens/{nightly}', 'relay-tokens/{reports}/timeline', 'service-accounts'],
  ...['service-accounts/{account}', 'webhooks', 'webhooks/{webhook}', 'webhooks/{webhook}/messages'],
  ...['webhooks/{webhook}/messages/{message}', 'admin-tokens', 'admin-tokens/{terraform}', 'users', 'users/{uma}'],
  ...['users/{uma}/timeline', 'sessions', 'sessions?user={uma}', 'connections', 'connections/{uma}.second'],
  ...['revocations', 'connect-links', 'connect-links/{link}', 'sign-ins', 'sign-ins/{signIn}', 'audit?limit=2'],
];

/** Of every resource that the API creates, and one that is not there. */
const REFUSED: readonly (readonly [string, string, object?])[] = [
  ...['connected-apps', 'relay-tokens', 'service-accounts', 'webhooks', 'admin-tokens', 'policy/explain'].flatMap(
    (path) => [['POST', path, {}] as const, ['POST', path, { name: '', events: [], scopes: ['x'], url: 'x' }] as const],
  ),
  ['POST', 'admin-tokens', { name: 'late', scope: 'read', expiresAt: '2031-03-05T10:00:00Z' }],
  ['POST', 'admin-tokens', { name: 'long', scope: 'read', expiresAt: '2042-03-05T10:00:00Z' }],
  ['PUT', 'relay-tokens/{nightly}', {}],
  ['POST', 'relay-tokens/{nightly}/rotate', { overlapSeconds: 2_592_001 }],
  ['PUT', 'webhooks/{webhook}', {}],
  ['PUT', 'connected-apps/platform', {}],
  ['GET', 'sessions?limit=0'],
  ['GET', 'relay-tokens?state=none'],
  ...['connected-apps', 'relay-tokens', 'service-accounts', 'webhooks', 'admin-tokens', 'users', 'connections'].map(
    (path) => ['GET', `${path}/none`] as const,
  ),
  ...['connect-links/none', 'sign-ins/none', 'webhooks/{webhook}/messages/none'].map((path) => ['GET', path] as const),
  ...['connected-apps/second', 'sessions/none', 'users/none'].map((path) => ['DELETE', path] as const),
];

const POLICY = { name: 'changed', scopes: ['bin:read'], apps: [], users: 'none', networks: [], expiresAt: inDays(30) };

/** In this order. */
const WRITES: readonly (readonly [string, string, object?])[] = [
  ['POST', 'policy/explain', { relayToken: '{reports}', route: 'bin:read', address: '127.0.0.1' }],
  ['POST', 'callback-urls', { urls: ['https://gatehouse.example/oauth/callback/second'] }],
  ['POST', 'register-at-provider', {}],
  ['POST', 'connected-apps/second/check'],
  ['PUT', 'connected-apps/second', {}],
  ['PUT', 'relay-tokens/{nightly}', POLICY],
  ['POST', 'relay-tokens/{nightly}/rotate', {}],
  ['DELETE', 'relay-tokens/{nightly}'],
  ['PUT', 'service-accounts/{account}', { name: 'renamed' }],
  ['DELETE', 'service-accounts/{account}'],
  ['PUT', 'webhooks/{webhook}', { url: '{hook}', events: ['connection.created'] }],
  ['POST', 'webhooks/{webhook}/rotate', {}],
  ['POST', 'webhooks/{webhook}/test'],
  ['POST', 'webhooks/{webhook}/messages/{message}/resend'],
  ['DELETE', 'webhooks/{webhook}'],
  ['DELETE', 'admin-tokens/{terraform}'],
  ['DELETE', 'connect-links/{link}'],
  ['DELETE', 'connections/{uma}.platform'],
  ['POST', 'connections/import', { entries: [] }],
  ['GET', 'connected-apps/second/disconnect-everyone'],
  ['POST', 'connected-apps/second/disconnect-everyone'],
  ['DELETE', 'sessions/{session}'],
  ['POST', 'users/{uma}/sign-out'],
  ['POST', 'users/{uma}/disable'],
  ['POST', 'users/{uma}/enable'],
  ['DELETE', 'users/{uma}'],
  ['POST', 'keys/rotate'],
  ['POST', 'keys/rotate-encryption', {}],
  ['POST', 'bin/rollback', {}],
  ['GET', 'bin/uploads/none'],
  ['POST', 'bin/uploads/none/import', {}],
  ['DELETE', 'bin/uploads/none'],
];

test('every call of the API is described, answered and refused as this', async () => {
  const { api, receiver, clean, pathOf } = filled;
  const wordOf = (text: string) => (text === '{hook}' ? receiver.url : pathOf(text));
  const reads: string[] = [];
  for (const path of READS) {
    const { status, json } = await api.call('GET', `/${pathOf(path)}`);
    reads.push(`=== GET ${path}: ${status}\n${clean(JSON.stringify(json, null, 1))}\n`);
  }
  await isWritten(reads.join('\n'), 'api');

  const refusals: string[] = [];
  for (const [method, path, body] of REFUSED) {
    const { status, json } = await api.call(method, `/${pathOf(path)}`, body);
    const { detail, errors = [] } = json as { detail?: string; errors?: { pointer: string; detail: string }[] };
    const faults = errors.map((one) => `${one.pointer}: ${one.detail}\n`).join('');
    refusals.push(`=== ${method} ${path} ${JSON.stringify(body ?? '')}: ${status}\n${detail}\n${faults}`);
  }
  await isWritten(clean(refusals.join('\n')), 'api-refusals');
  await isWritten(await operations(), 'api-operations');

  const written: string[] = [];
  for (const [method, path, body] of WRITES) {
    const { version } = method === 'PUT' ? (await api.call('GET', `/${pathOf(path)}`)).json : {};
    const sent =
      body &&
      JSON.parse(JSON.stringify({ ...body, version }), (_key, value) =>
        typeof value === 'string' ? wordOf(value) : value,
      );
    const { status, json } = await api.call(method, `/${pathOf(path)}`, sent);
    written.push(`=== ${method} ${path}: ${status} ${json.detail ?? Object.keys(json).join(' ')}`);
  }
  await isWritten(clean(`${written.join('\n')}\n`), 'api-changes');
});

interface Operation {
  summary: string;
  parameters?: { name: string; in: string; description?: string }[];
  responses: object;
}

async function operations(): Promise<string> {
  const { paths } = JSON.parse((await ask(`${filled.site.url}/openapi.json`)).body) as {
    paths: Record<string, Record<string, Operation>>;
  };
  const lines = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { summary, parameters = [], responses }]) => {
      const query = parameters.filter((one) => one.in === 'query');
      const asked = query.map(({ name, description = '' }) => `  ?${name}= ${description}`.trimEnd());
      return [`${method.toUpperCase()} ${path} (${Object.keys(responses)}): ${summary}`, ...asked].join('\n');
    }),
  );
  return `${lines.filter((line) => line.includes(' /admin/')).join('\n')}\n`;
}

/** In this order: the page, what is typed, and the button. */
const changes = (): readonly (readonly [string, Record<string, string>, string?])[] => {
  const { apiToken, receiver } = filled;
  return [
    ['connect-links/{link}/revoke', {}, 'Revoke connect link'],
    ['relay-tokens/new', { name: '', days: 'x' }],
    ['relay-tokens/new', { name: 'made', apps: 'platform', days: '7' }],
    ['relay-tokens/{nightly}/edit', { name: '' }],
    ['relay-tokens/{nightly}/edit', { name: 'renamed' }],
    ['relay-tokens/{nightly}/rotate', { overlapHours: '721' }],
    ['relay-tokens/{nightly}/rotate', { overlapHours: '2' }],
    ['relay-tokens/{nightly}/revoke', {}, 'Revoke relay token'],
    ['service-accounts/new', { name: '', app: 'platform', apiToken: '' }],
    ['service-accounts/new', { name: 'other', app: 'platform', apiToken }],
    ['service-accounts/{account}/replace', { apiToken: '' }],
    ['service-accounts/{account}/replace', { apiToken }],
    ['service-accounts/{account}/remove', {}, 'Delete service account'],
    ['webhooks/new', { url: 'x', events: '' }],
    ['webhooks/new', { url: receiver.url, events: 'connection.created' }],
    ['webhooks/{webhook}', { url: 'x' }],
    ['webhooks/{webhook}', { url: receiver.url, events: 'connection.created' }],
    ['webhooks/{webhook}', { overlapHours: '-1' }],
    ['webhooks/{webhook}', { overlapHours: '1' }],
    ['webhooks/{webhook}', {}, 'Send test message'],
    ['webhooks/{webhook}', {}, 'Send again Test message'],
    ['webhooks/{webhook}/remove', {}, 'Delete webhook'],
    ['admin-tokens/new', { name: '', days: '0' }],
    ['admin-tokens/new', { name: 'made', days: '30' }],
    ['admin-tokens/{terraform}/revoke', {}, 'Revoke admin token'],
    ['connected-apps/second', { name: '' }, 'Save'],
    ['connected-apps/second', { name: 'Renamed' }, 'Save'],
    ['connected-apps/second/disable', {}, 'Disable app'],
    ['connected-apps/second', {}, 'Enable app'],
    ['connected-apps/second/delete', { typed: 'x' }],
    ['connections/{uma}.platform/end', {}, 'Disconnect'],
    ['sessions/{session}/end', {}, 'End session'],
    ['users/{uma}/sign-out', {}, 'Sign out everywhere'],
    ['users/{uma}/disable', {}, 'Disable user'],
    ['users/{uma}', {}, 'Enable user'],
    ['users/{uma}/delete', { typed: 'x' }],
    ['users/{uma}/delete', { typed: 'user@example.test' }],
    ['keys', {}, 'Publish the next key now'],
  ];
};

/** What a page says of a change: done, or not done and why. */
const NOTICE = /<div class="notice notice-(\w+)" role="\w+">(.*?)<\/(?:ul|p)>\s*<\/div>/gs;

test('every change has this notice and these entries in the audit trail', async () => {
  const { agent, api, site, clean, pathOf } = filled;
  const { json: before } = await api.call('GET', '/audit?limit=1');
  const [last] = before.items as { id: string }[];
  const done: string[] = [];
  for (const [path, fields, button] of changes()) {
    pass(1_000);
    const page = await agent.get(`${site.url}/admin/${pathOf(path)}`);
    const { status, url, body } = await agent.submit(page, fields, button === undefined ? {} : { button });
    const notices = [...body.matchAll(NOTICE)].map(([, tone, inner = '']) => `${tone}:${outlineOf(inner)}`);
    done.push(
      `=== ${path} [${button ?? Object.keys(fields)}]: ${status} ${new URL(url).pathname}\n${notices.join('')}`,
    );
  }
  await isWritten(clean(done.join('\n')), 'changes');

  const entriesSince = async () => {
    const { json } = await getJson(agent, `${site.url}/admin/api/audit?limit=200`);
    const all = json.items as Entry[];
    return all.slice(
      0,
      all.findIndex(({ id }) => id === last?.id),
    );
  };
  // Deleting a user removes connections too, and the trail stores that a moment later.
  const ofSecond = pathOf('{uma}/second');
  await until(async () => (await entriesSince()).some(({ target }) => target?.id === ofSecond));
  const entries = await entriesSince();
  const lines = entries.toReversed().map(({ event, actor, target, userId, outcome, facts }) => {
    const about = [target?.kind, target?.id, target?.name, userId && `user ${userId}`, outcome]
      .filter(Boolean)
      .join(' ');
    return `${event} by ${actor.kind} ${actor.name ?? ''}: ${about} ${JSON.stringify(facts ?? {})}`;
  });
  await isWritten(clean(`${lines.join('\n')}\n`), 'audited-changes');
});

/** In this order: where it begins, and then for each page what is typed and the button. */
const wizard = (): readonly (readonly [string, ...(readonly [Record<string, string>, string])[]])[] => {
  const { issuer } = filled.site.sandbox;
  const third = { id: '', name: 'Third app', issuer };
  const credentials = { clientId: 'test-third', clientSecret: 'third-client-secret-0123456789' };
  return [
    ['register-app', [{ id: 'A b', name: '', issuer: 'x' }, 'Continue']],
    ['register-app', [{ ...third, id: 'platform' }, 'Continue']],
    ['register-app', [{ ...third, issuer: `${issuer}/` }, 'Continue']],
    ['register-app', [third, 'Continue'], [{ clientId: '' }, 'Register app']],
    ['register-app', [third, 'Continue'], [credentials, 'Register app']],
    ['register-app?preset=auth0', [{}, 'Continue']],
    ['connected-apps/second', [{}, 'Read provider settings']],
  ];
};

test('every step of a registration says this', async () => {
  const { agent, site, clean, pathOf } = filled;
  const steps: string[] = [];
  for (const [path, ...typed] of wizard()) {
    let page = await agent.get(`${site.url}/admin/${pathOf(path)}`);
    for (const [fields, button] of typed) page = await agent.submit(page, fields, { button });
    const names = typed.map(([fields, button]) => `${button} ${Object.keys(fields)}`).join(', ');
    // The presets stand on the page itself.
    const shown = outlineOf(page.body).replaceAll(/^.*\?preset=.*\n/gm, '');
    steps.push(`=== ${path} [${names}]: ${page.status}\n${shown}`);
  }
  await isWritten(clean(steps.join('\n')), 'registration-steps');
});

test('an upload of BIN data, its import and the way back say this', async () => {
  const { agent, api, site, clean, pathOf } = filled;
  const { json: made } = await api.call('POST', '/admin-tokens', { ...UPLOADER, expiresAt: inDays(1) });
  const upload = await ask(`${site.url}/admin/api/bin/uploads?date=2031-03-01&source=Card%20data&licence=CC0`, {
    ...{ method: 'POST', headers: { ...bearer(String(made.token)), 'content-type': 'text/csv' } },
    body: 'BIN,Brand,Type,isoCode2\n40001234,VISA,DEBIT,DK\n40001235,VISA,CREDIT,SE\nx,VISA,CREDIT,SE\n',
  });
  const { id } = JSON.parse(upload.body) as { id: string };
  const texts = [`=== POST bin/uploads: ${upload.status}\n${JSON.stringify(JSON.parse(upload.body), null, 1)}\n`];
  const open = (path: string) => agent.get(`${site.url}/admin/${pathOf(path)}`);
  const add = (name: string, { status, body }: Page) => texts.push(`=== ${name}: ${status}\n${outlineOf(body)}`);
  const { json: read } = await api.call('GET', `/bin/uploads/${id}`);
  texts.push(`=== GET bin/uploads/{id}\n${JSON.stringify(read, null, 1)}\n`);
  add('bin/uploads/{id}', await open(`bin/uploads/${id}`));
  add('[Import 2 rows]', await agent.submit(await open(`bin/uploads/${id}`), {}, { button: 'Import 2 rows' }));
  add('bin/rollback', await open('bin/rollback'));
  add('[Roll back]', await agent.submit(await open('bin/rollback'), {}, { button: 'Roll back' }));
  const { json: back } = await api.call('POST', '/bin/rollback', {});
  texts.push(`=== POST bin/rollback\n${JSON.stringify(back, null, 1)}\n`);
  const { json: trail } = await api.call('GET', '/audit?limit=5');
  texts.push(...(trail.items as Entry[]).map(({ event, facts }) => `${event} ${JSON.stringify(facts)}\n`));
  await isWritten(clean(texts.join('\n').replaceAll(id, '{upload}')), 'bin-upload');
});

const UPLOADER = { name: 'uploads', scope: 'write' };

const TROUBLED = [
  ...['', 'users', 'users/{uma}', 'connected-apps', 'connected-apps/second', 'connections', 'relay-tokens'],
  ...[
    'connections?health=reconnect_needed',
    'relay-tokens/{nightly}',
    'relay-tokens?state=expired',
    'service-accounts',
  ],
  ...[
    'webhooks',
    'webhooks/{webhook}',
    'webhooks?state=failing',
    'admin-tokens',
    'connect-links',
    'sessions',
    'sign-ins',
  ],
];

test('half a year later, with a disabled user, a broken connection and a failing webhook, the pages say this', async () => {
  const { api, desk, receiver, site, clean, pathOf } = filled;
  receiver.respond(500);
  await api.call('POST', pathOf('/webhooks/{webhook}/test'));
  await api.call('POST', pathOf('/users/{uma}/disable'));
  await desk.change(pathOf('{uma}'), () => ({ failure: BROKEN }));
  // Otherwise, chores of the running process would do these sooner or later.
  await createConnectionIndex({ store: desk.store, clock: Date.now }).update(await desk.read(pathOf('{uma}')));
  await api.call('DELETE', pathOf('/sessions/{ownSession}'));
  pass(200 * DAY_MS);
  const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
  const texts: string[] = [];
  for (const path of TROUBLED) {
    const { status, body } = await agent.get(`${site.url}/admin/${pathOf(path)}`);
    texts.push(`=== /admin/${path}: ${status}\n${outlineOf(body)}`);
  }
  await isWritten(clean(texts.join('\n')), 'half-a-year-later');
});

const BROKEN: RefreshFailure = {
  ...{ kind: 'reconnect_needed', cause: 'grant_refused', reason: 'invalid_grant' },
  ...{ since: Date.parse(inDays(0)), failures: 1, retryAt: 0 },
};

interface Entry {
  id: string;
  event: string;
  actor: { kind: string; name?: string };
  target?: { kind: string; id: string; name?: string };
  userId?: string;
  outcome?: string;
  facts?: object;
}
