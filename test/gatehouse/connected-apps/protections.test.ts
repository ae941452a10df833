/** Protections beyond the plain code flow: pushed requests (PAR), DPoP, and private_key_jwt. */
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createOwnKeys } from '../../../src/gatehouse/connected-apps/own-keys.ts';

import { keys } from '../../../src/shared/storage/keys.ts';

import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { sealerOf } from '../../support/encryption-keys.ts';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { freePort } from '../../support/ports.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { createAdministrator, exchange, relayThread } from '../relay/service.ts';

type Id = 'pushed' | 'unknown' | 'lacking' | 'auto' | 'strict' | 'bound' | 'bearer' | 'keyed' | 'fapi';

const DAY = 86_400_000;
const DISCOVERY = '/.well-known/openid-configuration';
let site: TestSite;

beforeAll(async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const clientOf = (id: Id, changes: Record<string, unknown> = {}) => ({
    clientId: `test-${id}`,
    clientSecret: CLIENT_SECRET,
    redirectUris: [`${url}/oauth/callback/${id}`],
    ...changes,
  });
  const KEY_AUTHENTICATION = { tokenEndpointAuthMethod: 'private_key_jwt' as const, clientSecret: undefined };
  site = await startSite({
    env: { PUBLIC_URL: url, PORT: String(port), ADMIN_APP: 'pushed' },
    sandbox: {
      clients: [
        clientOf('pushed', { settings: { requirePushedRequests: true } }),
        clientOf('unknown', { redirectUris: [`${url}/oauth/callback/another`] }),
        clientOf('lacking'),
        clientOf('auto'),
        clientOf('strict'),
        clientOf('bearer'),
        clientOf('bound', { settings: { requireDpop: true, requireDpopNonce: true } }),
        clientOf('fapi', {
          ...KEY_AUTHENTICATION,
          jwksUri: `${url}/.well-known/jwks.json`,
          settings: { requirePushedRequests: true, requireDpop: true, requireDpopNonce: true },
        }),
        clientOf('keyed', { ...KEY_AUTHENTICATION, jwksUri: `${url}/.well-known/jwks.json` }),
      ],
    },
    apps: (urls) => {
      const appOf = (id: Id, changes: Record<string, unknown> = {}) => ({
        ...sandboxApp(urls, 'platform'),
        id,
        name: `The ${id} app`,
        clientId: `test-${id}`,
        callbackUrls: [`${url}/oauth/callback/${id}`],
        ...changes,
      });
      return [
        appOf('pushed', { par: 'required' }),
        appOf('unknown', { par: 'required' }),
        appOf('lacking', { par: 'required' }),
        appOf('auto'),
        appOf('strict'),
        appOf('bound', { dpop: 'required' }),
        appOf('bearer', { dpop: 'required' }),
        appOf('keyed', KEY_AUTHENTICATION),
        appOf('fapi', { ...KEY_AUTHENTICATION, par: 'required', dpop: 'required' }),
      ];
    },
  });
});
afterAll(() => site.close());
afterEach(() => site.sandbox.faults.clear());

/** Begins a sign-in. `url` is the authorization URL that the browser is redirected to, if it is. */
async function startSignIn(id: Id, agent: UserAgent = createUserAgent()) {
  const page = await agent.get(`${site.url}/sign-in?app=${id}`, { follow: false });
  const location = page.headers.get('location');
  return { page, url: location === null ? undefined : new URL(location) };
}

const signInWith = (id: Id) => signIn(site, 'user@example.test', { path: `/sign-in?app=${id}` });
const readThread = (agent: UserAgent, id: Id) => getJson(agent, `${site.url}/threads/current?app=${id}`);
const tokenHits = () => site.sandbox.requests.latest('identity-provider').filter(({ path }) => path === '/token');
const threadHits = () => site.sandbox.requests.latest('platform').filter(({ path }) => path === '/1/threads/current');
/** Lets the platform refuse a token that was not issued just now, which causes a refresh. */
const refuseNextThreadCall = () => {
  advanceClock(5);
  site.sandbox.faults.set({ listener: 'platform', kind: 'response', status: 401, times: 1 });
};
/** Changes members of the provider's metadata; undefined removes one. Returns a function that ends the change. */
const changeMetadata = (members: Record<string, unknown>) =>
  site.sandbox.faults.set({
    listener: 'identity-provider',
    path: DISCOVERY,
    kind: 'rewrite',
    change: (metadata) => ({ ...metadata, ...members }),
  });

/** What an administrator reads in the sign-in record about the failure on this page. */
async function recordOf(page: Page): Promise<Page> {
  const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=pushed' });
  const reference = /<code class="reference"[^>]*>(\w{8})</.exec(page.body)?.[1] ?? '';
  return agent.get(`${site.url}/admin/sign-ins/${reference}`);
}

describe('pushed authorization requests', () => {
  test('R1 required: the URL has only the client ID and the reference of the request, and the sign-in succeeds', async () => {
    const { url } = await startSignIn('pushed');
    expect([...(url?.searchParams.keys() ?? [])].sort()).toEqual(['client_id', 'request_uri']);
    expect(site.sandbox.requests.count('POST /par')).toBe(1);

    const { agent, page } = await signInWith('pushed');
    expect([page.status, page.url]).toEqual([200, `${site.url}/`]);
    expect((await readThread(agent, 'pushed')).status).toBe(200);
  });

  test('R72 a refused push has a page with its cause, and its record names the field to check', async () => {
    const { page } = await startSignIn('unknown');
    expect(page.status).toBe(502);
    expect(page.body).toContain('not set up correctly');
    const record = (await recordOf(page)).body;
    expect(record).toContain('compare callback URL and scopes with the registration there');
    expect(record).toContain('/settings#callback-title"');
  });

  test('required but not offered: a page says who must fix it, and the browser is not redirected', async () => {
    changeMetadata({ pushed_authorization_request_endpoint: undefined });
    const { page } = await startSignIn('lacking');
    expect([page.status, page.headers.get('location')]).toEqual([502, null]);
    expect(page.body).toContain('An administrator has to correct that');
    expect(site.logs().join('')).toContain('par_endpoint_missing');
    expect((await recordOf(page)).body).toMatch(/no endpoint for them.*#par"/s);
  });

  test('auto: uses PAR and DPoP only if the provider requires them', async () => {
    const { url: plainUrl } = await startSignIn('auto');
    expect(plainUrl?.searchParams.get('redirect_uri')).toBe(`${site.url}/oauth/callback/auto`);

    const restoreMetadata = changeMetadata({ require_pushed_authorization_requests: true });
    const { url: urlOfPushedRequest } = await startSignIn('strict');
    restoreMetadata();
    expect([...(urlOfPushedRequest?.searchParams.keys() ?? [])].sort()).toEqual(['client_id', 'request_uri']);

    const { agent } = await signInWith('strict');
    expect((await readThread(agent, 'strict')).status).toBe(200);
    expect(threadHits().at(-1)?.headers.authorization).toMatch(/^DPoP /);
  });
});

describe('DPoP', () => {
  const lastProof = () => threadHits().at(-1)?.headers.dpop?.toString() ?? '';
  const lastAuthorization = () => threadHits().at(-1)?.headers.authorization;

  test('required: the thread is read with a proof by the same key before and after a refresh', async () => {
    const { agent, page } = await signInWith('bound');
    expect(page.url).toBe(`${site.url}/`);
    expect((await readThread(agent, 'bound')).status).toBe(200);
    const firstAuthorization = lastAuthorization();
    expect(firstAuthorization).toMatch(/^DPoP /);
    const firstProof = lastProof();
    expect(decodeJwt(firstProof)).toMatchObject({ htm: 'GET', htu: `${site.sandbox.platformUrl}/1/threads/current` });

    const tokenCallsBeforeRefresh = tokenHits().length;
    refuseNextThreadCall();
    expect((await readThread(agent, 'bound')).status).toBe(200);
    expect(tokenHits().length).toBeGreaterThan(tokenCallsBeforeRefresh);
    expect(lastAuthorization()).not.toBe(firstAuthorization);
    expect(decodeProtectedHeader(lastProof()).jwk).toEqual(decodeProtectedHeader(firstProof).jwk);
    // "d" would be the private part of the key.
    expect(JSON.stringify(decodeProtectedHeader(firstProof))).not.toContain('"d"');
  });

  test('a call is repeated with the nonce that the platform demands; the next one sends the nonce at once', async () => {
    const { agent } = await signInWith('bound');
    const nonce = 'asked-for-by-the-platform';
    site.sandbox.faults.set({
      listener: 'platform',
      kind: 'response',
      status: 401,
      times: 1,
      headers: { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': nonce },
    });
    const threadCallsBefore = threadHits().length;
    const tokenCallsBefore = tokenHits().length;

    expect((await readThread(agent, 'bound')).status).toBe(200);
    expect(threadHits().length).toBe(threadCallsBefore + 2);
    expect(decodeJwt(lastProof()).nonce).toBe(nonce);

    await readThread(agent, 'bound');
    expect(threadHits().length).toBe(threadCallsBefore + 3);
    expect(decodeJwt(lastProof()).nonce).toBe(nonce);
    // A missing nonce does not mean that the token is invalid, so it is not refreshed.
    expect(tokenHits().length).toBe(tokenCallsBefore);
  });

  test('the token type and the scheme of a challenge may be in any case', async () => {
    site.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      kind: 'rewrite',
      change: (tokenResponse) => ({ ...tokenResponse, token_type: 'dpOp' }),
    });
    const { agent } = await signInWith('bearer');
    const nonce = 'asked-for-in-another-case';
    site.sandbox.faults.set({
      listener: 'platform',
      kind: 'response',
      status: 401,
      times: 1,
      headers: { 'www-authenticate': 'dpOp error="use_dpop_nonce"', 'dpop-nonce': nonce },
    });
    expect((await readThread(agent, 'bearer')).status).toBe(200);
    expect(decodeJwt(lastProof()).nonce).toBe(nonce);
  });

  test('required: a bearer token is refused at a sign-in and at a refresh', async () => {
    const { agent } = await signInWith('bearer');
    expect((await readThread(agent, 'bearer')).status).toBe(200);
    site.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      kind: 'rewrite',
      change: (tokenResponse) => ({ ...tokenResponse, token_type: 'Bearer' }),
    });

    const { page: refusal } = await signInWith('bearer');
    expect(refusal.status).toBe(502);
    expect((await recordOf(refusal)).body).toMatch(/issued a bearer token.*#dpop"/s);

    const tokenCallsBeforeRefresh = tokenHits().length;
    refuseNextThreadCall();
    expect((await readThread(agent, 'bearer')).status).toBe(503);
    expect(tokenHits().length).toBe(tokenCallsBeforeRefresh + 1);
  });
});

test('FAPI 2.0: PAR, private_key_jwt and DPoP together, also if the platform causes a refresh', async () => {
  const { agent, page } = await signInWith('fapi');
  expect([page.status, page.url]).toEqual([200, `${site.url}/`]);
  const pushes = site.sandbox.requests.latest('identity-provider').filter(({ path }) => path === '/par');
  expect(pushes.at(-1)?.headers.authorization).toBeUndefined();
  expect((await readThread(agent, 'fapi')).status).toBe(200);
  const firstAuthorization = threadHits().at(-1)?.headers.authorization;
  expect(firstAuthorization).toMatch(/^DPoP /);

  refuseNextThreadCall();
  expect((await readThread(agent, 'fapi')).status).toBe(200);
  expect(threadHits().at(-1)?.headers.authorization).toMatch(/^DPoP /);
  expect(threadHits().at(-1)?.headers.authorization).not.toBe(firstAuthorization);
});

test('R81 services can read with a bound token, but never receive it', async () => {
  const { agent } = await signInWith('bound');
  const store = await createSqliteStore({ directory: site.dataDirectory });
  const administrator = await createAdministrator(site, { store, sealer: sealerOf(site.env) });
  const { token } = await administrator.createRelayToken({ apps: ['bound', 'pushed'] });
  await store.close();
  const userAssertion = async () => {
    const { headers } = await agent.get(`${site.url}/session/verify`);
    return headers.get('gatehouse-user-assertion') ?? '';
  };

  for (const scope of [undefined, 'platform_read_only']) {
    const { status, body } = await exchange(site, token, {
      subject_token: await userAssertion(),
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      audience: 'bound',
      ...(scope && { scope }),
    });
    const refusal = JSON.parse(body);
    expect(status).toBe(400);
    expect(refusal.error).toBe('invalid_target');
    expect(refusal.error_description).toContain('Call the platform through the relay');
  }

  const relayed = await relayThread(site, token, { 'gatehouse-user-assertion': await userAssertion() }, '?app=bound');
  expect(relayed.status).toBe(200);
  expect(threadHits().at(-1)?.headers.authorization).toMatch(/^DPoP /);
});

describe('private_key_jwt', () => {
  /** Changes what is stored for Gatehouse, which then starts anew and reads it. */
  const changeStore = async (change: (store: Store) => Promise<unknown>) => {
    const store = await createSqliteStore({ directory: site.dataDirectory });
    await change(store);
    await store.close();
    await site.restart();
  };
  const rotateKeys = () =>
    changeStore((store) => {
      const sealedJson = createSealedJson(sealerOf(site.env));
      return createOwnKeys({ store, sealedJson, clock: Date.now }).rotate();
    });
  /** Changes our stored keys as if time had passed. */
  const ageKeys = (milliseconds: number) =>
    changeStore(async (store) => {
      const sealer = sealerOf(site.env);
      const record = await store.get(keys.ownKeys);
      const ownKeys = JSON.parse(await sealer.open(record?.value ?? '', keys.ownKeys)) as { signsFrom: number }[];
      for (const key of ownKeys) key.signsFrom -= milliseconds;
      await store.write([{ put: keys.ownKeys, value: await sealer.seal(JSON.stringify(ownKeys), keys.ownKeys) }]);
    });
  const publishedKids = async () => {
    const { json } = await getJson(createUserAgent(), `${site.url}/.well-known/jwks.json`);
    return (json.keys as { kid: string }[]).map(({ kid }) => kid);
  };
  const signingKid = async (agent: UserAgent) => {
    const { headers } = await agent.get(`${site.url}/session/verify?audience=test`);
    return decodeProtectedHeader(headers.get('gatehouse-user-assertion') ?? '').kid;
  };

  test('R48 authenticates with the published keys, also after a rotation', async () => {
    await rotateKeys();
    const [oldKid, nextKid] = await publishedKids();
    expect(nextKid).toBeDefined();

    const { agent, page } = await signInWith('keyed');
    expect(page.url).toBe(`${site.url}/`);
    expect(await signingKid(agent)).toBe(oldKid);
    expect(tokenHits().at(-1)?.headers.authorization).toBeUndefined();

    // The next key signs a day after it was published.
    await ageKeys(DAY);
    expect(await signingKid(agent)).toBe(nextKid);
    const tokenCallsBeforeRefresh = tokenHits().length;
    refuseNextThreadCall();
    expect((await readThread(agent, 'keyed')).status).toBe(200);
    expect(tokenHits().length).toBe(tokenCallsBeforeRefresh + 1);
  });
});
