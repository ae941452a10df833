/** The policy check: the page and the API say what the relay would, and name the rule that refuses. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openVaultDesk, sessionOf, type VaultDesk } from '../../grants/vault-desk.ts';
import { type Administrator, administratorOf } from '../../relay/service.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

let site: TestSite;
let desk: VaultDesk;
let admin: Administrator;
let agent: UserAgent;
let user: string;
/** By name: `strict` takes a proven user only, `open` whatever there is, `bins` nothing but BIN look-ups. */
const tokens: Record<string, string> = {};
beforeAll(async () => {
  site = await startSite();
  desk = await openVaultDesk(site);
  admin = await administratorOf(site, desk);
  ({ agent } = await signIn(site, 'admin@example.test'));
  user = (await sessionOf(site, (await signIn(site)).agent)).userId;
  const all = { assertUser: true, fullScope: true, acceptIdTokens: true };
  tokens.strict = (await admin.makeToken({ name: 'Strict' })).id;
  tokens.open = (await admin.makeToken({ name: 'Open', ...all })).id;
  tokens.bins = (await admin.makeToken({ name: 'Bins', users: 'none', apps: [], scopes: ['bin:read'] })).id;
});
afterAll(async () => {
  await desk.close();
  await site.close();
});

const CALL = { route: 'threads:read', app: 'platform', address: '127.0.0.1' };
const EXCHANGE = { ...CALL, route: 'token:exchange' };

describe.each([
  ['a proven user', 'strict', CALL, undefined],
  ['a user that nothing proves', 'strict', { ...CALL, proof: 'none' }, 'assertUser'],
  ['a user that nothing proves, where that is allowed', 'open', { ...CALL, proof: 'none' }, undefined],
  ['an ID token', 'strict', { ...EXCHANGE, proof: 'id_token' }, 'acceptIdTokens'],
  ['an ID token, where that is allowed', 'open', { ...EXCHANGE, proof: 'id_token' }, undefined],
  ['an ID token, which only an exchange can take', 'strict', { ...CALL, proof: 'id_token' }, undefined],
  ['a token that is not narrowed', 'strict', { ...EXCHANGE, unnarrowed: true }, 'fullScope'],
  ['a token that is not narrowed, where that is allowed', 'open', { ...EXCHANGE, unnarrowed: true }, undefined],
  ['a call that is never narrowed', 'strict', { ...CALL, unnarrowed: true }, undefined],
  ['a BIN look-up, which needs neither user nor app', 'bins', { ...CALL, route: 'bin:read' }, undefined],
  ['a scope that the token lacks', 'bins', CALL, 'scopes'],
  ['a network that is not its own', 'strict', { ...CALL, address: '10.0.0.1' }, 'networks'],
] as const)('%s', (_name, token, call, rule) => {
  test('by API', async () => {
    const { status, json } = await admin.call('POST', '/policy/explain', { relayToken: tokens[token], user, ...call });
    const refused = { allowed: false, rule, detail: expect.stringContaining(`Rule ${rule}`) };
    expect([status, json]).toEqual([200, rule === undefined ? { allowed: true } : refused]);
  });

  test('by page, which keeps what was asked', async () => {
    const { unnarrowed = false, ...asked } = { unnarrowed: undefined, ...call };
    const fields = { token: String(tokens[token]), user, ...asked, ...(unnarrowed ? { unnarrowed: 'yes' } : {}) };
    const page = await agent.get(`${site.url}/admin/policy?${new URLSearchParams(fields)}`);
    const answer = /id="answer-title">(.*?)<\/h2>/s.exec(page.body)?.[1];
    expect(answer).toContain(rule === undefined ? 'Allowed' : `by the rule <code>${rule}</code>`);
    const form = page.forms.find(({ names }) => names.includes('route'));
    expect(Object.fromEntries(form?.fields ?? [])).toEqual({ proof: 'assertion', ...fields });
  });
});

test('nothing is asked yet where token or address is missing, or cannot be read', async () => {
  for (const query of ['', `?token=${tokens.strict}`, '?address=10.0.0.1', `?token=${tokens.strict}&address=%20`]) {
    const { status, body } = await agent.get(`${site.url}/admin/policy${query}`);
    expect([query, status, body.includes('answer-title')]).toEqual([query, 200, false]);
  }
  const odd = `?token=${tokens.strict}&address=127.0.0.1&app=platform&route=nothing&proof=nothing&user=%20${user}%20`;
  const page = await agent.get(`${site.url}/admin/policy${odd}`);
  expect(page.body).toContain('Allowed');
  const form = page.forms.find(({ names }) => names.includes('route'));
  expect(Object.fromEntries(form?.fields ?? [])).toMatchObject({ route: 'threads:read', proof: 'assertion', user });
});

test('a service account needs no app beside it, and one that is not there is named as such', async () => {
  const question = { relayToken: tokens.open, route: 'threads:read', address: '127.0.0.1', serviceAccount: 'sa0' };
  expect((await admin.call('POST', '/policy/explain', question)).json).toMatchObject({ rule: 'serviceAccount' });
  const gone = await admin.call('POST', '/policy/explain', { ...question, relayToken: 'AAAAAAAAAAA' });
  expect([gone.status, gone.json.detail]).toEqual([404, 'There is no relay token with this id.']);
});
