/**
 * Every page of the administration as an administrator reads it, and what comes of each change. The expected texts are in
 * the folder `pages`; after an intended change of a page, `npm run t -- test/admin/pages.long.test.ts -u` writes them again.
 */
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createConnectionIndex } from '../../src/grants/connection-index.ts';
import type { RefreshFailure } from '../../src/grants/grant.ts';
import { signIn } from '../support/gatehouse.ts';
import { outlineOf } from '../support/outline.ts';
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
