/** Fills a storage with data of every kind, over HTTP, by commands, and as a process that is killed at its work. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createBinService } from '../../src/bin-lookup-service/service.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { keys } from '../../src/shared/storage/keys.ts';
import { startBinProcess } from '../bin-lookup-service/site.ts';
import { assertionOf, bearer, createAdministrator, exchange, relayThread } from '../gatehouse/relay/service.ts';
import { createUserAgent, type UserAgent } from '../support/browserless.ts';
import { createMember, type Member, openSharedStorage } from '../support/fleet.ts';
import { CLIENT_SECRET, getJson, signIn } from '../support/gatehouse.ts';
import { freePort } from '../support/ports.ts';
import { runCommandProcess } from '../support/program.ts';
import { FORM_BODY, JSON_BODY, sendRequest } from '../support/send-request.ts';
import { type TokenEndpoint, watchTokenEndpoint } from '../support/token-endpoint.ts';
import { until } from '../support/until.ts';
import { APP_IDS, appOf, binSettings, KEY_LISTS, PROVIDER_PORTS, SETTINGS, URL_OF } from './deployment.ts';

const USERS = ['user', 'second', 'admin', 'lost', 'unclear', 'leaving', 'gone', 'disconnected', 'waiting', 'fresh'];
const loginOf = (name: string) => `${name}@example.test`;

/** What the reader of the stored data needs to know. */
export interface Facts {
  /** When the data were stored, in ISO 8601. */
  storedAt: string;
  /** The session cookies. */
  cookies: Record<string, string>;
  userIds: Record<string, string>;
  relayToken: string;
  adminToken: string;
  webhookId: string;
  webhookSecret: string;
  linkUrl: string;
  uploadId: string;
  /** The page of a faulty form. */
  formPath: string;

  jwks: string;
  binKey: string;
}

/** Of the members that a call of the administration responds with, those that are used here. */
interface Created {
  id: string;
  token: string;
  secret: string;
}

/** @param options `env`: the settings of the storage; `directory`: for files */
export async function fillStorage(options: {
  env: Record<string, string>;
  binEnv: Record<string, string>;
  directory: string;
}): Promise<Facts> {
  const { directory } = options;
  const sandbox = await startSandbox({
    port: PROVIDER_PORTS.issuer,
    clients: [
      ...APP_IDS.map((id) => ({
        clientId: `test-${id}`,
        clientSecret: CLIENT_SECRET,
        name: `App ${id}`,
        redirectUris: [`${URL_OF.gatehouse}/oauth/callback/${id}`],
        postLogoutRedirectUris: [`${URL_OF.gatehouse}/`],
        backchannelLogoutUri: `${URL_OF.gatehouse}/oauth/backchannel-logout/${id}`,
      })),
      {
        clientId: 'bin-lookup-service',
        clientSecret: CLIENT_SECRET,
        redirectUris: [`${URL_OF.binAccounts}/account/callback`],
      },
    ],
    seed: { users: USERS.slice(3).map((name) => ({ login: loginOf(name), name: `The ${name} user` })) } as never,
    binService: createBinService(),
    accessTokenSeconds: 3_600,
  });
  const tokenEndpoint = watchTokenEndpoint(sandbox);
  mkdirSync(directory, { recursive: true });
  const appsFile = join(directory, 'connected-apps.json');
  writeFileSync(appsFile, JSON.stringify([appOf('platform'), appOf('third')]));
  const env = {
    ...SETTINGS,
    ...{ ENCRYPTION_KEYS: KEY_LISTS.first, CONNECTED_APPS_FILE: appsFile, TEST_CLIENT_SECRET: CLIENT_SECRET },
    ...{ MANAGEMENT_PORT: String(await freePort()), CONNECTION_CHECK_SECONDS: '0' },
    ...options.env,
  };
  const member = createMember(env, []);
  try {
    await member.start();
    const facts = await fill({ member, env, sandbox, tokenEndpoint });
    const binKey = await fillBinService({ ...options.binEnv, ...(await binSettings()) }, sandbox);
    return { ...facts, binKey };
  } finally {
    await member.kill();
    tokenEndpoint.close();
    await sandbox.close();
  }
}

async function fill(parts: {
  member: Member;
  env: Record<string, string>;
  sandbox: Sandbox;
  tokenEndpoint: TokenEndpoint;
}): Promise<Omit<Facts, 'binKey'>> {
  const { member, env, sandbox, tokenEndpoint } = parts;
  const site = { url: URL_OF.gatehouse };
  let storage = await openSharedStorage(env);
  const creator = await createAdministrator(site, storage);
  const expiresAt = new Date(Date.now() + 90 * 86_400_000).toISOString();
  const { json: created } = await creator.call('POST', '/admin-tokens', { name: 'Reader', scope: 'write', expiresAt });
  const adminToken = String(created.token);
  const call = async (method: string, path: string, body?: unknown): Promise<Created> => {
    const { status, json } = await creator.call(method, path, body);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(json)}`);
    return json as unknown as Created;
  };
  const failTokens = (times: number, status: number, body: object) =>
    sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'response', status, body, times });

  // Apps, services and what they may.
  await call('POST', '/connected-apps', { ...appOf('second'), clientSecret: CLIENT_SECRET });
  await call('POST', '/connected-apps/platform/check');
  const policy = {
    ...{ name: 'Reports', apps: ['platform'], routes: 'reads', users: 'all', networks: ['127.0.0.0/8'] },
    scopes: ['threads:read', 'bin:read', 'token:exchange', 'connections:read', 'connect_links:create', 'api:call'],
    ...{ assertUser: true, expiresAt },
  };
  const { token: relayToken } = await call('POST', '/relay-tokens', policy);
  const receiver = { url: URL_OF.receiver, events: ['connection.created', 'connection.reconnect_needed'] };
  const { id: webhookId, secret: webhookSecret } = await call('POST', '/webhooks', receiver);

  // Users with grants in each state.
  const agents: Record<string, UserAgent> = {};
  const userIds: Record<string, string> = {};
  const connect = async (name: string, app: string, lifetimeSeconds = 3_600) => {
    tokenEndpoint.lifetimeSeconds = lifetimeSeconds;
    const path = `/sign-in?app=${app}&return_to=/bin`;
    const { agent } = await signIn(site, loginOf(name), { path, ...(agents[name] && { agent: agents[name] }) });
    agents[name] = agent;
    const { json } = await getJson(agent, `${site.url}/session`);
    userIds[name] = String((json.user as { id: string }).id);
    return agent;
  };
  const thread = (name: string) =>
    agents[name]?.get(`${site.url}/threads/current`, { headers: { accept: 'text/html' } });
  await connect('admin', 'platform');
  await connect('user', 'platform', 2);
  await connect('second', 'second');
  for (const name of ['lost', 'unclear', 'leaving', 'gone', 'waiting', 'fresh']) await connect(name, 'platform', 2);
  await connect('disconnected', 'third');
  await sleep(2_500);
  failTokens(1, 400, { error: 'invalid_grant' });
  await thread('lost');
  failTokens(1, 400, { error: 'strange' });
  await thread('unclear');
  tokenEndpoint.lifetimeSeconds = 3_600;
  await thread('fresh');
  failTokens(1, 503, { error: 'temporarily_unavailable' });
  const entry = {
    user: { subject: 'imported-1' },
    app: 'platform',
    refreshToken: 'an-imported-refresh-token',
    scopes: ['openid'],
  };
  await creator.call('POST', '/connections/import', { entries: [entry] });

  // Calls, lookups and links.
  const { csrfToken } = (await getJson(agents.admin as UserAgent, `${site.url}/session`)).json;
  const accessToken = await storage.readGrant(userIds.admin ?? '');
  await call('POST', '/service-accounts', { name: 'Nightly', app: 'platform', apiToken: accessToken.accessToken });
  const assertion = await assertionOf(site, agents.fresh?.cookies.header(site.url) ?? '');
  for (let count = 0; count < 12; count += 1) await thread('fresh');
  await relayThread(site, relayToken, { 'gatehouse-user-assertion': assertion });
  await sendRequest(`${site.url}/relay/bin/45717360`, { headers: bearer(relayToken) });
  await agents.fresh?.get(`${site.url}/bin/45717360`);
  const linked = await sendRequest(`${site.url}/relay/connect-links`, {
    method: 'POST',
    headers: { ...bearer(relayToken), ...JSON_BODY },
    body: JSON.stringify({ userId: userIds.fresh, app: 'platform' }),
  });
  const { url: linkUrl } = JSON.parse(linked.body);
  sandbox.faults.set({ listener: 'platform', kind: 'error', times: 1 });
  await thread('fresh');

  // BIN data: two imports, and an upload that waits.
  const upload = async (source: string) => {
    const response = await sendRequest(`${site.url}/admin/api/bin/uploads?asOf=2026-11-01&source=${source}`, {
      method: 'POST',
      headers: { ...bearer(adminToken), 'content-type': 'text/csv' },
      body: 'BIN,Brand,Type,isoCode2\n40001234,VISA,DEBIT,DK\n',
    });
    return String(JSON.parse(response.body).id);
  };
  for (const source of ['first', 'second']) await call('POST', `/bin/uploads/${await upload(source)}/import`, {});
  const uploadId = await upload('third');
  sandbox.faults.set({
    ...{ listener: 'bin-lookup-service', kind: 'response', status: 429, times: 1, headers: { 'retry-after': '600' } },
  });
  await agents.fresh?.get(`${site.url}/bin/51049512`);

  // The provider signs a user out, and a user who has left.
  await createUserAgent().get(`${site.url}/sign-in?app=platform`, { follow: false });
  sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', kind: 'unavailable', times: 100 });
  await creator.call('DELETE', `/users/${userIds.gone}`);
  // This ends the session at the provider, which then sends a logout token.
  const confirmation = await agents.second?.submit(await agents.second.get(`${site.url}/`), {}, { button: 'Sign out' });
  if (confirmation) await agents.second?.submit(confirmation, {}, { button: 'Sign out' });
  await connect('second', 'second');

  // A rotation that ends, and one that another process holds and never ends.
  const rotate = async (list: string, checkSeconds: string) => {
    member.signal('SIGTERM');
    await member.program.ended;
    await storage.store.close();
    Object.assign(member.env, { ENCRYPTION_KEYS: list, CONNECTION_CHECK_SECONDS: checkSeconds });
    Object.assign(env, { ENCRYPTION_KEYS: list });
    await member.start();
    storage = await openSharedStorage(env);
  };
  await rotate(KEY_LISTS.rotated, '2');
  await until(async () => (await storage.store.get(keys.connectionCheck('platform'))) !== undefined);
  const rotated = await runCommandProcess(['keys', 'rotate'], env);
  if (rotated.status !== 0) throw new Error(rotated.stderr);
  // A check would refresh the tokens that are to expire.
  await rotate(KEY_LISTS.rotating, '0');
  if (!(await storage.store.acquireLease(keys.keyRotationLease, 'another process', 60_000)))
    throw new Error('No lease.');
  await call('POST', '/keys/rotate-encryption');

  // Work that is under way when the process is killed.
  const held = Promise.withResolvers<void>();
  sandbox.faults.clear();
  await connect('fresh', 'platform');
  const narrowed = await exchange(site, relayToken, {
    ...{ subject_token: userIds.fresh ?? '', subject_token_type: 'urn:gatehouse:token-type:user' },
    ...{ audience: 'platform', scope: 'platform_read_only' },
  });
  if (narrowed.status !== 200) throw new Error(narrowed.body);
  const watched = watchTokenEndpoint(sandbox);
  watched.lifetimeSeconds = 2;
  for (const name of ['user', 'waiting']) await connect(name, 'platform');
  await sleep(2_500);
  watched.lifetimeSeconds = 3_600;
  const refresh = watched.holdNext();
  void thread('user')?.catch(() => undefined);
  await refresh.prepared;
  void thread('user')?.catch(() => undefined);
  const awaited = keys.refreshLease(userIds.waiting ?? '', 'platform');
  if (!(await storage.store.acquireLease(awaited, 'another process', 60_000))) throw new Error('No lease.');
  void thread('waiting')?.catch(() => undefined);
  sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', kind: 'hold', until: held.promise });
  void creator.call('DELETE', `/users/${userIds.leaving}`).catch(() => undefined);
  void creator.call('POST', '/connected-apps/third/disconnect-everyone').catch(() => undefined);
  const postAsAdmin = (path: string, values: Record<string, string> = {}) =>
    agents.admin?.request(`${site.url}${path}`, {
      ...{ method: 'POST', follow: false, headers: { accept: 'text/html', ...FORM_BODY } },
      body: new URLSearchParams({ _csrf: String(csrfToken), ...values }).toString(),
    });
  await postAsAdmin('/admin/setup/alerts/dismiss');
  const formPage = await postAsAdmin('/admin/webhooks', { url: 'https://kept.example.com/' });
  const formPath = String(formPage?.headers.get('location'));
  await sleep(6_000);

  const jwks = (await sendRequest(`${site.url}/.well-known/jwks.json`)).body;
  await member.kill();
  for (const lease of [keys.keyRotationLease, awaited]) await storage.store.releaseLease(lease, 'another process');
  const storedAt = new Date().toISOString();
  held.resolve();
  refresh.release();
  watched.close();
  await storage.store.close();
  const cookies = Object.fromEntries(
    Object.entries(agents).map(([name, agent]) => [
      name,
      /gatehouse\.\d+=[^;]+/.exec(agent.cookies.header(site.url))?.[0] ?? '',
    ]),
  );
  return {
    storedAt,
    cookies,
    userIds,
    relayToken,
    adminToken,
    webhookId,
    webhookSecret,
    linkUrl,
    uploadId,
    ...{ formPath, jwks },
  };
}

/** Fills the storage of the BIN lookup service. Returns a key of the account. */
async function fillBinService(env: Record<string, string>, sandbox: Sandbox): Promise<string> {
  sandbox.faults.clear();
  const { program } = await startBinProcess(env);
  const site = { url: URL_OF.binAccounts };
  const { agent, page } = await signIn(site, loginOf('user'), { path: '/account/sign-in' });
  const chosen = await agent.submit(page, { plan: 'small' }, { button: 'Choose' });
  const created = await agent.submit(chosen, { name: 'Shop', networks: '' });
  const key = /data-copy-source>(gthb_[^<]+)</.exec(created.body)?.[1] ?? '';
  await createUserAgent().get(`${site.url}/account/sign-in`, { follow: false });
  for (let count = 0; count < 12; count += 1) await sendRequest(`${site.url}/45717360`);
  await sleep(1_000);
  program.signal('SIGKILL');
  await program.ended;
  return key;
}
