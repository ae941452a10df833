/** Protections beyond the plain code flow: pushed requests (PAR), DPoP, and private_key_jwt. */

import { decodeJwt, decodeProtectedHeader } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createOwnKeys } from '../../../src/gatehouse/connected-apps/own-keys.ts';
import { parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { sealerOf } from '../../support/encryption-keys.ts';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { freePort } from '../../support/ports.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { createAdministrator, exchange, relayThread } from '../relay/service.ts';

const IDS = ['pushed', 'unknown', 'lacking', 'auto', 'strict', 'bound', 'bearer', 'keyed', 'fapi'] as const;
type Id = (typeof IDS)[number];

const DISCOVERY = '/.well-known/openid-configuration';
let site: TestSite;

beforeAll(async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const client = (id: Id, more: Record<string, unknown> = {}) => ({
    clientId: `test-${id}`,
    clientSecret: CLIENT_SECRET,
    redirectUris: [`${url}/oauth/callback/${id}`],
    ...more,
  });
  const keyed = { tokenEndpointAuthMethod: 'private_key_jwt' as const };
  site = await startSite({
    env: { PUBLIC_URL: url, PORT: String(port), ADMIN_APP: 'pushed' },
    sandbox: {
      clients: [
        client('pushed', { settings: { requirePushedRequests: true } }),
        client('unknown', { redirectUris: [`${url}/oauth/callback/another`] }),
        ...(['lacking', 'auto', 'strict', 'bearer'] as const).map((id) => client(id)),
        client('bound', { settings: { requireDpop: true, requireDpopNonce: true } }),
        client('fapi', {
          ...{ ...keyed, clientSecret: undefined, jwksUri: `${url}/.well-known/jwks.json` },
          settings: { requirePushedRequests: true, requireDpop: true, requireDpopNonce: true },
        }),
        client('keyed', { ...keyed, clientSecret: undefined, jwksUri: `${url}/.well-known/jwks.json` }),
      ],
    },
    apps: (urls) => {
      const app = (id: Id, changes: Record<string, unknown> = {}) => ({
        ...sandboxApp(urls, 'platform'),
        ...{ id, name: `The ${id} app`, clientId: `test-${id}`, callbackUrls: [`${url}/oauth/callback/${id}`] },
        ...changes,
      });
      return [
        ...(['pushed', 'unknown', 'lacking'] as const).map((id) => app(id, { par: 'required' })),
        ...(['auto', 'strict'] as const).map((id) => app(id)),
        ...(['bound', 'bearer'] as const).map((id) => app(id, { dpop: 'required' })),
        app('keyed', { ...keyed, clientSecret: undefined }),
        app('fapi', { ...keyed, clientSecret: undefined, par: 'required', dpop: 'required' }),
      ];
    },
  });
});
afterAll(() => site.close());
afterEach(() => site.sandbox.faults.clear());

/** The URL that the browser is sent to. */
async function sentTo(id: Id, agent: UserAgent = createUserAgent()) {
  const page = await agent.get(`${site.url}/sign-in?app=${id}`, { follow: false });
  const location = page.headers.get('location');
  return { page, url: location === null ? undefined : new URL(location) };
}

const signInBy = (id: Id) => signIn(site, 'user@example.test', { path: `/sign-in?app=${id}` });
const readThread = (agent: UserAgent, id: Id) => getJson(agent, `${site.url}/threads/current?app=${id}`);
const tokenHits = () => site.sandbox.requests.latest('identity-provider').filter(({ path }) => path === '/token');
const threadHits = () => site.sandbox.requests.latest('platform').filter(({ path }) => path === '/1/threads/current');
/** The platform refuses a token that is not new, which causes a refresh. */
const refuseOnce = () => {
  advanceClock(5);
  site.sandbox.faults.set({ listener: 'platform', kind: 'response', status: 401, times: 1 });
};
const metadataWith = (change: Record<string, unknown>) =>
  site.sandbox.faults.set({
    ...{ listener: 'identity-provider', path: DISCOVERY, kind: 'rewrite' },
    change: (metadata) => ({ ...metadata, ...change }),
  });

/** The record page of the failure on this page, for an administrator. */
async function causeOf(page: Page): Promise<Page> {
  const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=pushed' });
  const reference = /<code class="reference"[^>]*>(\w{8})</.exec(page.body)?.[1] ?? '';
  return agent.get(`${site.url}/admin/sign-ins/${reference}`);
}

describe('pushed authorization requests', () => {
  test('R1 required: the URL only has the reference of the request, and the sign-in succeeds', async () => {
    const { url } = await sentTo('pushed');
    expect([...(url?.searchParams.keys() ?? [])].sort()).toEqual(['client_id', 'request_uri']);
    expect(site.sandbox.requests.count('POST /par')).toBe(1);
    const { agent, page } = await signInBy('pushed');
    expect([page.status, page.url]).toEqual([200, `${site.url}/`]);
    expect((await readThread(agent, 'pushed')).status).toBe(200);
  });

  test('R72 a refused push has a page with its cause, and its record names the field to check', async () => {
    const { page } = await sentTo('unknown');
    expect(page.status).toBe(502);
    expect(page.body).toContain('not set up correctly');
    const record = (await causeOf(page)).body;
    expect(record).toContain('compare callback URL and scopes with the registration there');
    expect(record).toContain('#callback-title"');
  });

  test('required but not offered: a page says who must fix it, and the browser is not redirected', async () => {
    metadataWith({ pushed_authorization_request_endpoint: undefined });
    const { page } = await sentTo('lacking');
    expect([page.status, page.headers.get('location')]).toEqual([502, null]);
    expect(page.body).toContain('An administrator has to correct that');
    expect(site.logs().join('')).toContain('par_endpoint_missing');
    expect((await causeOf(page)).body).toMatch(/no endpoint for them.*#par"/s);
  });

  test('auto: uses PAR and DPoP only if the provider requires them', async () => {
    const plain = await sentTo('auto');
    expect(plain.url?.searchParams.get('redirect_uri')).toBe(`${site.url}/oauth/callback/auto`);
    const off = metadataWith({ require_pushed_authorization_requests: true });
    const strict = await sentTo('strict');
    off();
    expect([...(strict.url?.searchParams.keys() ?? [])].sort()).toEqual(['client_id', 'request_uri']);
    const { agent } = await signInBy('strict');
    expect((await readThread(agent, 'strict')).status).toBe(200);
    expect(threadHits().at(-1)?.headers.authorization).toMatch(/^DPoP /);
  });
});

describe('DPoP', () => {
  const lastProof = () => threadHits().at(-1)?.headers.dpop?.toString() ?? '';

  test('required: reads the thread with a proof of the key that tokens are bound to, before and after a refresh', async () => {
    const { agent, page } = await signInBy('bound');
    expect(page.url).toBe(`${site.url}/`);
    expect((await readThread(agent, 'bound')).status).toBe(200);
    const first = threadHits().at(-1);
    expect(first?.headers.authorization).toMatch(/^DPoP /);
    const proof = lastProof();
    expect(decodeJwt(proof)).toMatchObject({ htm: 'GET', htu: `${site.sandbox.platformUrl}/1/threads/current` });

    const before = tokenHits().length;
    refuseOnce();
    expect((await readThread(agent, 'bound')).status).toBe(200);
    expect(tokenHits().length).toBeGreaterThan(before);
    expect(threadHits().at(-1)?.headers.authorization).not.toBe(first?.headers.authorization);
    expect(decodeProtectedHeader(lastProof()).jwk).toEqual(decodeProtectedHeader(proof).jwk);
    expect(JSON.stringify(decodeProtectedHeader(proof))).not.toContain('"d"');
  });

  test('repeats a request with the nonce that the platform demands, and sends it at once the next time', async () => {
    const { agent } = await signInBy('bound');
    const nonce = 'asked-for-by-the-platform';
    site.sandbox.faults.set({
      ...{ listener: 'platform', kind: 'response', status: 401, times: 1 },
      headers: { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': nonce },
    });
    const [before, tokens] = [threadHits().length, tokenHits().length];
    expect((await readThread(agent, 'bound')).status).toBe(200);
    expect(threadHits().length).toBe(before + 2);
    expect(decodeJwt(lastProof()).nonce).toBe(nonce);
    await readThread(agent, 'bound');
    expect(threadHits().length).toBe(before + 3);
    expect(decodeJwt(lastProof()).nonce).toBe(nonce);
    // A missing nonce does not mean that the token is invalid.
    expect(tokenHits().length).toBe(tokens);
  });

  test('compares the token type and the scheme of a challenge without regard to case', async () => {
    site.sandbox.faults.set({
      ...{ listener: 'identity-provider', path: '/token', kind: 'rewrite' },
      change: (answer) => ({ ...answer, token_type: 'dpOp' }),
    });
    const { agent } = await signInBy('bearer');
    const nonce = 'asked-for-in-another-case';
    site.sandbox.faults.set({
      ...{ listener: 'platform', kind: 'response', status: 401, times: 1 },
      headers: { 'www-authenticate': 'dpOp error="use_dpop_nonce"', 'dpop-nonce': nonce },
    });
    expect((await readThread(agent, 'bearer')).status).toBe(200);
    expect(decodeJwt(lastProof()).nonce).toBe(nonce);
  });

  test('refuses a bearer token at sign-in and at refresh if DPoP is required', async () => {
    const { agent } = await signInBy('bearer');
    expect((await readThread(agent, 'bearer')).status).toBe(200);
    site.sandbox.faults.set({
      ...{ listener: 'identity-provider', path: '/token', kind: 'rewrite' },
      change: (answer) => ({ ...answer, token_type: 'Bearer' }),
    });
    const refused = await signInBy('bearer');
    expect(refused.page.status).toBe(502);
    expect((await causeOf(refused.page)).body).toMatch(/issued a bearer token.*#dpop"/s);
    const before = tokenHits().length;
    refuseOnce();
    expect((await readThread(agent, 'bearer')).status).toBe(503);
    expect(tokenHits().length).toBe(before + 1);
  });
});

test('FAPI 2.0: PAR, private_key_jwt and DPoP together, also if the platform causes a refresh', async () => {
  const { agent, page } = await signInBy('fapi');
  expect([page.status, page.url]).toEqual([200, `${site.url}/`]);
  const pushes = site.sandbox.requests.latest('identity-provider').filter(({ path }) => path === '/par');
  expect(pushes.at(-1)?.headers.authorization).toBeUndefined();
  expect((await readThread(agent, 'fapi')).status).toBe(200);
  const first = threadHits().at(-1)?.headers.authorization;
  expect(first).toMatch(/^DPoP /);

  refuseOnce();
  expect((await readThread(agent, 'fapi')).status).toBe(200);
  expect(threadHits().at(-1)?.headers.authorization).toMatch(/^DPoP /);
  expect(threadHits().at(-1)?.headers.authorization).not.toBe(first);
});

test('R81 services can read with a bound token, but never receive it', async () => {
  const { agent } = await signInBy('bound');
  const store = await createSqliteStore({ directory: site.dataDirectory });
  const { token } = await (await createAdministrator(site, { store, sealer: sealerOf(site.env) })).createRelayToken({
    apps: ['bound', 'pushed'],
  });
  await store.close();
  const assertion = async () => {
    const { headers } = await agent.get(`${site.url}/session/verify`);
    return headers.get('gatehouse-user-assertion') ?? '';
  };
  const exchanged = async (audience: string, more: Record<string, string> = {}) => {
    const subject_token = await assertion();
    const subject_token_type = 'urn:ietf:params:oauth:token-type:jwt';
    return exchange(site, token, { subject_token, subject_token_type, audience, ...more });
  };
  for (const more of [{}, { scope: 'platform_read_only' }]) {
    const { status, body } = await exchanged('bound', more);
    expect([status, JSON.parse(body)]).toMatchObject([400, { error: 'invalid_target' }]);
    expect(JSON.parse(body).error_description).toContain('Call the platform through the relay');
  }
  const relayed = await relayThread(site, token, { 'gatehouse-user-assertion': await assertion() }, '?app=bound');
  expect(relayed.status).toBe(200);
  expect(threadHits().at(-1)?.headers.authorization).toMatch(/^DPoP /);
});

describe('private_key_jwt', () => {
  /** Changes our stored keys as if time had passed. */
  const ageKeys = async (milliseconds: number, rotate = false) => {
    const parsed = parseEncryptionKeys(site.env.ENCRYPTION_KEYS ?? '');
    const sealer = createSealer('keys' in parsed ? parsed.keys : []);
    const store = await createSqliteStore({ directory: site.dataDirectory });
    if (rotate) await createOwnKeys({ store, sealedJson: createSealedJson(sealer), clock: Date.now }).rotate();
    const record = await store.get(keys.ownKeys);
    const held = JSON.parse(await sealer.open(record?.value ?? '', keys.ownKeys)) as { signsFrom: number }[];
    const aged = held.map((key) => ({ ...key, signsFrom: key.signsFrom - milliseconds }));
    await store.write([{ put: keys.ownKeys, value: await sealer.seal(JSON.stringify(aged), keys.ownKeys) }]);
    await store.close();
    await site.restart();
  };
  const publishedKids = async () => {
    const { json } = await getJson(createUserAgent(), `${site.url}/.well-known/jwks.json`);
    return (json.keys as { kid: string }[]).map(({ kid }) => kid);
  };
  const signingKid = async (agent: UserAgent) => {
    const { headers } = await agent.get(`${site.url}/session/verify?audience=test`);
    return decodeProtectedHeader(headers.get('gatehouse-user-assertion') ?? '').kid;
  };

  test('R48 authenticates with the published keys, also after a rotation', async () => {
    await ageKeys(0, true);
    const [old, next] = await publishedKids();
    expect(next).toBeDefined();
    const { agent, page } = await signInBy('keyed');
    expect(page.url).toBe(`${site.url}/`);
    expect(await signingKid(agent)).toBe(old);
    expect(tokenHits().at(-1)?.headers.authorization).toBeUndefined();

    await ageKeys(86_400_000);
    expect(await signingKid(agent)).toBe(next);
    const before = tokenHits().length;
    refuseOnce();
    expect((await readThread(agent, 'keyed')).status).toBe(200);
    expect(tokenHits().length).toBe(before + 1);
  });
});
