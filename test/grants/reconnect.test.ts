/** Reconnecting by the form as it stands: it requests what was requested, whatever the provider calls that. */
import { afterEach, expect, test } from 'vitest';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import type { UserAgent } from '../support/browserless.ts';
import { getJson } from '../support/gatehouse.ts';
import { status } from '../support/hostile-answers.ts';
import type { Mode } from '../support/hostile-modes.ts';
import { pass } from '../support/passing-time.ts';
import { until } from '../support/until.ts';
import { openVaultDesk, sessionOf } from './vault-desk.ts';

let site: HostileSite;
afterEach(() => site.close());

type Tokens = Record<string, unknown>;
const scopesIn = ({ scope }: Tokens) => String(scope).split(' ');

/** The provider responds so from now on, with access tokens for a minute. */
const behave = (tokens: (body: Tokens) => Tokens, more: Mode = {}) =>
  site.provider.set({ ...more, tokens: (body) => tokens({ ...body, expires_in: 60 }) as typeof body });
const REFUSED: Mode = { answers: { refresh: status(400, { error: 'invalid_grant' }) } };

/** A user who signs in with one app and is connected to another, which has these scopes. */
async function connected(scopes: string[], tokens: (body: Tokens) => Tokens, changes: Record<string, unknown> = {}) {
  site = await startHostileSite({
    apps: (provider, url) => [
      provider.app(url, { scopes: ['openid', 'profile'], apiBaseUrl: undefined }),
      provider.app(url, { id: 'files', scopes, signIn: undefined, ...changes }),
    ],
  });
  const { agent } = await attempt(site);
  behave(tokens);
  await reconnect(agent, 'Connect');
  expect(await healthOf(agent)).toBe('active');
  site.provider.hits.length = 0;
  return agent;
}

async function reconnect(agent: UserAgent, button = 'Reconnect with these') {
  const page = await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button });
  expect(page.status).toBe(200);
}

const requested = () => {
  const [hit] = site.provider.hitsOf('authorize').slice(-1);
  return new URL(hit?.url ?? '', site.url).searchParams;
};
const connectionOf = async (agent: UserAgent) =>
  (await sessionOf(site, agent)).connections.find(({ app }) => app === 'files');
const healthOf = async (agent: UserAgent) => (await connectionOf(agent))?.health;
const thread = (agent: UserAgent) => getJson(agent, `${site.url}/threads/current?app=files`);

test('a provider that leaves offline_access out of its responses: the connection lasts again after it was refused', async () => {
  const scopes = ['openid', 'profile', 'mail.read', 'offline_access'];
  const withoutOffline = ({ refresh_token, ...body }: Tokens): Tokens => {
    const granted = scopesIn(body);
    const scope = granted.filter((one) => one !== 'offline_access').join(' ');
    return { ...body, scope, ...(granted.includes('offline_access') ? { refresh_token } : {}) };
  };
  const agent = await connected(scopes, withoutOffline);
  behave(withoutOffline, REFUSED);
  pass(61);
  expect((await thread(agent)).status).toBe(403);
  behave(withoutOffline);
  const page = await agent.get(`${site.url}/connections/files`);
  expect(page.body).not.toContain('status-idle">New');
  await reconnect(agent);
  expect(requested().get('scope')).toBe(scopes.join(' '));
  expect(await healthOf(agent)).toBe('active');
  pass(61);
  expect((await thread(agent)).status).toBe(200);
});

test('a provider that gives scopes other names: none is lost, and the short way from the start page asks for the same', async () => {
  const scopes = ['openid', 'email', 'profile', 'calendar'];
  const renamed = (body: Tokens) => ({
    ...body,
    scope: scopesIn(body)
      .map((scope) => (scope === 'openid' ? scope : `https://provider.test/auth/${scope}`))
      .join(' '),
  });
  const agent = await connected(scopes, renamed);
  await reconnect(agent);
  expect(requested().get('scope')).toBe(scopes.join(' '));
  const page = await agent.get(`${site.url}/connections/files`);
  const form = page.forms.find(({ buttons }) => buttons.some(({ text }) => text === 'Reconnect with these'));
  const fewer = form?.fields.filter(([, value]) => value !== 'calendar');
  await agent.request(`${site.url}/connections/files`, { method: 'POST', body: new URLSearchParams(fewer) });
  expect(requested().get('scope')).toBe('openid email profile');
  behave(renamed, REFUSED);
  pass(61);
  expect((await thread(agent)).status).toBe(403);
  behave(renamed);
  await agent.submit(await agent.get(`${site.url}/`), {}, { button: 'Reconnect Elsewhere' });
  expect(requested().get('scope')).toBe('openid email profile');
  expect(await healthOf(agent)).toBe('active');
});

test('a provider whose names cannot be told apart: the form as it stands is never refused', async () => {
  const joined = (body: Tokens) => ({ ...body, scope: scopesIn(body).join(',') });
  const agent = await connected(['repo', 'gist'], joined);
  await reconnect(agent);
  expect(requested().get('scope')).toBe('repo gist');
});

test('a connection that an earlier version made reconnects as well', async () => {
  const agent = await connected(['repo', 'gist'], (body) => ({ ...body, scope: 'repo,gist' }));
  const desk = await openVaultDesk(site);
  const { userId } = await sessionOf(site, agent);
  await desk.change(userId, () => ({ requestedScopes: undefined }), 'files');
  await desk.close();
  await reconnect(agent);
  expect(requested().get('scope')).toBe('repo gist');
});

test('the platform refused the token and the provider is away: in doubt, until the platform takes the token again', async () => {
  const agent = await connected(['read', 'offline_access'], ({ expires_in: _, ...body }) => body);
  const desk = await openVaultDesk(site);
  const { userId } = await sessionOf(site, agent);
  const { accessToken } = await desk.read(userId, 'files');
  await desk.change(userId, () => ({ accessToken: 'no-longer-known' }), 'files');
  site.provider.set('refresh-status-503');
  pass(5);
  const { status: code, json } = await thread(agent);
  expect([code, json.connectUrl]).toEqual([503, `${site.url}/connections/files`]);
  expect(await connectionOf(agent)).toMatchObject({ health: 'in_doubt', cause: 'provider_unavailable' });
  await desk.change(userId, () => ({ accessToken }), 'files');
  expect((await thread(agent)).status).toBe(200);
  await until(async () => (await healthOf(agent)) === 'active');
  await desk.close();
});
