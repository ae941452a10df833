/** R9, R10: a callback that comes again changes nothing in the record of the first call, and leads the user on. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { SignInRecord } from '../../../src/gatehouse/sign-in-record/attempt.ts';
import { SIGN_IN_FAILURES } from '../../../src/gatehouse/sign-in-record/failures.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import type { StoreKind } from '../../support/fleet.ts';
import { getJson } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { createTestStorage, type TestStorage } from '../../support/test-storage.ts';
import {
  begin,
  callbackFor,
  csrfTokenOf,
  expectNamedCause,
  type HostileSite,
  isSignedIn,
  secretCookiesOf,
  startHostileSite,
  textOf,
} from './attempt.ts';

const ADA = { sub: 'ada', email: 'ada@example.test' };
const STAFF_ONLY = { allow: { claim: 'groups', values: ['staff'] } };
const START = '/sign-in?app=elsewhere&return_to=/sessions';

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  let storage: TestStorage;
  let site: HostileSite;
  beforeAll(async () => {
    if (kind === 'Redis' && missingRedis) return;
    storage = await createTestStorage(kind);
    site = await startHostileSite({
      apps: (provider, url) => [
        provider.app(url, { returnUrls: ['https://front.example.test/board'] }),
        provider.app(url, { id: 'staff', signIn: STAFF_ONLY }),
        provider.app(url, { id: 'connected', signIn: undefined, scopes: ['openid', 'profile', 'email'] }),
      ],
      env: storage.env,
    });
  });
  afterEach(() => {
    site?.provider.reset();
    site?.provider.signInAs(ADA);
  });
  afterAll(async () => {
    await site?.close();
    await storage?.dispose();
  });
  const testOn = (title: string, run: () => Promise<void>) =>
    test(title, async (context) => {
      if (kind === 'Redis') skipIfMissing(context, missingRedis);
      site.provider.signInAs(ADA);
      await run();
    });

  const pending = async (agent = createUserAgent(), path = START) => {
    const { location } = await begin(site, { agent, path });
    return { agent, location, callback: (await callbackFor(location)).href };
  };
  const startConnecting = async (agent: UserAgent, fields: Record<string, string>) => {
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent), ...fields });
    const url = `${site.url}/connections/connected`;
    const page = await agent.request(url, { method: 'POST', body, follow: false });
    return locationOf(page);
  };
  const signedIn = async () => {
    const { agent, callback } = await pending();
    await agent.get(callback);
    expect(await isSignedIn(site, agent)).toBe(true);
    return agent;
  };
  const records = async () =>
    (await storage.items())
      .flatMap((item) => ('record' in item && item.record.startsWith('sign-in:') ? [item.value] : []))
      .map((value) => JSON.parse(value) as SignInRecord);
  const expectNoChangeIn = async (earlierRecords: readonly SignInRecord[]) => {
    const now = await records();
    for (const record of earlierRecords) expect(now).toContainEqual(record);
  };
  const open = (agent: UserAgent, url: string) => agent.get(url, { follow: false });
  const locationOf = (page: Page) => page.headers.get('location') ?? '';
  const parametersOf = (location: string) => new URL(location, site.url).searchParams;
  const referenceOn = ({ body }: Page) => /data-copy-source>([^<]+)</.exec(body)?.[1];
  /** A browser with the present cookies of another one, which later changes do not reach. */
  const copyOf = (agent: UserAgent) => {
    const copy = createUserAgent();
    for (const { name, value } of agent.cookies.all()) copy.cookies.set(site.url, name, value);
    return copy;
  };
  /** Lets the token endpoint respond only after `release`. */
  const holdTokens = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const arrived = Promise.withResolvers<void>();
    site.provider.setModes({
      responses: {
        token: (res) => {
          arrived.resolve();
          void promise.then(() => res.writeHead(503).end());
        },
      },
    });
    return { release: resolve, arrived: arrived.promise };
  };

  testOn('R10 after a success: on to the return path, without another token request', async () => {
    for (const returnTo of ['/sessions', 'https://front.example.test/board']) {
      site.provider.reset();
      const { agent, callback } = await pending(undefined, `/sign-in?app=elsewhere&return_to=${returnTo}`);
      expect(locationOf(await open(agent, callback))).toBe(returnTo);
      const before = await records();
      for (let n = 0; n < 3; n += 1) expect(locationOf(await open(agent, callback))).toBe(returnTo);
      expect(await records()).toEqual(before);
      expect(site.provider.hitsOf('token')).toHaveLength(1);
    }
  });

  testOn('R10 after a refusal: the same page with its cause and reference, signed in or not', async () => {
    const refusals = [
      ['access_denied', START, () => site.provider.setModes('callback-access-denied')],
      ['not_permitted', '/sign-in?app=staff', () => undefined],
      ['token_response_refused', START, () => site.provider.setModes('id-token-wrong-nonce')],
    ] as const;
    for (const [failure, path, arrange] of refusals) {
      site.provider.reset();
      arrange();
      const { agent, callback } = await pending(undefined, path);
      const first = await agent.get(callback);
      expectNamedCause(first, SIGN_IN_FAILURES[failure].detail);
      const before = await records();
      const expectSamePage = async () => {
        const again = await agent.get(callback);
        expect([again.status, referenceOn(again)]).toEqual([first.status, referenceOn(first)]);
        expectNamedCause(again, SIGN_IN_FAILURES[failure].detail);
      };
      await expectSamePage();
      expect(await records()).toEqual(before);
      site.provider.reset();
      await agent.get((await pending(agent)).callback);
      expect(await isSignedIn(site, agent)).toBe(true);
      await expectSamePage();
      await expectNoChangeIn(before);
    }
  });

  testOn(
    'R10 "Try again" and "Use another account" on a page that is shown again lead to the return path',
    async () => {
      site.provider.setModes('callback-access-denied');
      const { agent, callback } = await pending();
      const links = ({ body }: Page) => [...body.matchAll(/href="([^"]*sign-in\?[^"]*)"/g)].map(([, href]) => href);
      const first = links(await agent.get(callback));
      expect(first.length).toBe(2);
      for (const href of first) expect(href).toContain('return_to=%2Fsessions');
      expect(links(await agent.get(callback))).toEqual(first);
    },
  );

  testOn(
    'R9 four at once while the first is at the provider: the others start over, and all end signed in',
    async () => {
      const { agent, callback } = await pending();
      const { release, arrived } = holdTokens();
      const first = open(agent, callback);
      await arrived;
      site.provider.reset();
      const others = await Promise.all([1, 2, 3].map(() => open(agent, callback)));
      for (const page of others) expect(locationOf(page)).toMatch(`${site.provider.issuer}/authorize`);
      const ends = await Promise.all(others.map((page) => agent.get(locationOf(page), { follow: true })));
      for (const page of ends) expect(new URL(page.url).pathname).toBe('/sessions');
      expect(await isSignedIn(site, agent)).toBe(true);
      release();
      expect((await first).status).toBe(503);
      expect(await isSignedIn(site, agent)).toBe(true);
    },
  );

  testOn('R10 the browser lost the first response: the sign-in starts over once, as it was', async () => {
    const { agent, location, callback } = await pending(undefined, `${START}&prompt=login`);
    const withoutResponse = copyOf(agent);
    await open(agent, callback);
    const before = await records();
    const again = await open(withoutResponse, callback);
    expect(parametersOf(locationOf(again)).get('prompt')).toBe(parametersOf(location).get('prompt'));
    const secondCallback = (await callbackFor(locationOf(again))).href;
    // This response is lost, too.
    await open(copyOf(withoutResponse), secondCallback);
    const end = await withoutResponse.get(secondCallback);
    expect([end.status, new URL(end.url).search]).toEqual([200, '?ended=no_longer_pending']);
    await expectNoChangeIn(before);
    const third = await withoutResponse.get(callback);
    expect(new URL(third.url).pathname).toBe('/sessions');
  });

  testOn('R10 a consent that is still under way starts over with the chosen scopes, and completes', async () => {
    const agent = await signedIn();
    const fields = { scope: 'openid profile', choose: '1', prompt: 'select_account', return_to: '/connections' };
    const location = await startConnecting(agent, fields);
    const { release, arrived } = holdTokens();
    const callback = (await callbackFor(location)).href;
    const first = open(agent, callback);
    await arrived;
    site.provider.reset();
    const again = locationOf(await open(agent, callback));
    for (const name of ['scope', 'prompt', 'redirect_uri'])
      expect([name, parametersOf(again).get(name)]).toEqual([name, parametersOf(location).get(name)]);
    const secondCallback = (await callbackFor(again)).href;
    expect(locationOf(await open(agent, secondCallback))).toBe('/connections');
    expect(locationOf(await open(agent, secondCallback))).toBe('/connections');
    release();
    await first;
    const { connections } = (await getJson(agent, `${site.url}/session`)).json as { connections: { app: string }[] };
    expect(connections.map(({ app }) => app)).toContain('connected');
  });

  testOn('R10 a consent cannot start over for another user: the page of the connection is opened', async () => {
    const agent = await signedIn();
    const { release, arrived } = holdTokens();
    const callback = (await callbackFor(await startConnecting(agent, { return_to: '/sessions' }))).href;
    const first = open(agent, callback);
    await arrived;
    const signedOut = copyOf(agent);
    for (const { name } of agent.cookies.all())
      if (!name.includes('-tx')) signedOut.cookies.set(site.url, name, undefined);
    expect(locationOf(await open(signedOut, callback))).toBe('/connections/connected?return_to=%2Fsessions');
    release();
    await first;
  });

  testOn('R64 ten sign-ins that start at once in a browser without cookies all finish, in any order', async () => {
    for (const order of ['first to last', 'last to first', 'at once']) {
      const agent = createUserAgent();
      const paths = Array.from({ length: 10 }, (_one, n) => `/problems/not_found?tab=${n}`);
      const callbacks = await Promise.all(
        paths.map((path) => pending(agent, `/sign-in?app=elsewhere&return_to=${encodeURIComponent(path)}`)),
      );
      const ends = new Map<string, string>();
      const finish = async (n: number) => {
        ends.set(paths[n] ?? '', locationOf(await open(agent, callbacks[n]?.callback ?? '')));
      };
      const tabs = order === 'last to first' ? [...paths.keys()].reverse() : [...paths.keys()];
      if (order === 'at once') await Promise.all(tabs.map(finish));
      else for (const n of tabs) await finish(n);
      for (const path of paths) expect([order, ends.get(path)]).toEqual([order, path]);
      expect(await isSignedIn(site, agent)).toBe(true);
      expect(secretCookiesOf(agent).length).toBeLessThanOrEqual(20);
      await agent.get((await pending(agent)).callback);
      expect(secretCookiesOf(agent).length).toBeLessThanOrEqual(20);
    }
  });

  testOn(
    'R6, R10 a request that twelve others displaced: the start page says so, and the record has the cause',
    async () => {
      const { agent, callback } = await pending();
      for (let n = 0; n < 12; n += 1) await begin(site, { agent, path: START });
      const page = await agent.get(callback);
      expect([page.status, new URL(page.url).pathname]).toEqual([200, '/']);
      expect(textOf(page.body)).toContain(SIGN_IN_FAILURES.no_longer_pending.detail);
      expect(textOf(page.body)).not.toMatch(/already|used/);
      const ended = (await records()).filter(({ failure }) => failure === 'no_longer_pending');
      expect(ended).toHaveLength(1);
      expect((await agent.get(callback)).url).toBe(page.url);
      await expectNoChangeIn(ended);
      expect(site.provider.hitsOf('token')).toEqual([]);
    },
  );

  testOn('R10 another browser that opens the callback of an ended attempt changes nothing in its record', async () => {
    site.provider.setModes('callback-access-denied');
    const { agent, callback } = await pending();
    await agent.get(callback);
    const before = await records();
    expectNamedCause(await createUserAgent().get(callback), SIGN_IN_FAILURES.cookie_missing.detail);
    expectNamedCause(await (await begin(site)).agent.get(callback), SIGN_IN_FAILURES.cookie_missing.detail);
    await expectNoChangeIn(before);
  });

  testOn('R10, R64 what waits at the provider survives any number of sign-ins in another tab', async () => {
    const agent = await signedIn();
    const location = await startConnecting(agent, { return_to: '/sessions' });
    for (let n = 0; n < 3; n += 1) await agent.get((await pending(agent)).callback);
    expect(locationOf(await open(agent, (await callbackFor(location)).href))).toBe('/sessions');
    const { connections } = (await getJson(agent, `${site.url}/session`)).json as { connections: { app: string }[] };
    expect(connections.map(({ app }) => app)).toContain('connected');
  });

  testOn('R64 nine of ten tabs finish after the first one and another sign-in have finished', async () => {
    const agent = createUserAgent();
    const paths = Array.from({ length: 10 }, (_one, n) => `/problems/not_found?tab=${n}`);
    const tabs = await Promise.all(
      paths.map((path) => pending(agent, `/sign-in?app=elsewhere&return_to=${encodeURIComponent(path)}`)),
    );
    await open(agent, tabs[0]?.callback ?? '');
    await agent.get((await pending(agent)).callback);
    for (const [n, path] of paths.entries()) expect(locationOf(await open(agent, tabs[n]?.callback ?? ''))).toBe(path);
  });

  testOn('R10 a callback that comes again after two more sign-ins ends as it ended at first', async () => {
    const agent = createUserAgent();
    site.provider.setModes('callback-access-denied');
    const denied = await pending(agent);
    const first = await agent.get(denied.callback);
    site.provider.reset();
    site.provider.signInAs(ADA);
    const succeeded = await pending(agent);
    expect(locationOf(await open(agent, succeeded.callback))).toBe('/sessions');
    for (let n = 0; n < 2; n += 1) await agent.get((await pending(agent)).callback);
    expect(locationOf(await open(agent, succeeded.callback))).toBe('/sessions');
    const again = await agent.get(denied.callback);
    expect([again.status, referenceOn(again)]).toEqual([first.status, referenceOn(first)]);
  });

  testOn('R10 a request whose secret twenty newer ones displaced: the start page says so, and it ends', async () => {
    const agent = await signedIn();
    const location = await startConnecting(agent, { return_to: '/sessions' });
    for (let n = 0; n < 21; n += 1) await agent.get((await pending(agent)).callback);
    expect(secretCookiesOf(agent)).toHaveLength(20);
    const page = await agent.get((await callbackFor(location)).href);
    expect(new URL(page.url).search).toBe('?ended=cookie_missing');
    expect(textOf(page.body)).toContain(SIGN_IN_FAILURES.cookie_missing.detail);
    const ended = (await records()).filter(({ failure }) => failure === 'cookie_missing');
    expect(ended.filter(({ purpose }) => purpose === 'connect')).toHaveLength(1);
  });

  testOn('R6, R10 reloads of one callback share one pending request, and each of them can complete it', async () => {
    for (const completing of ['first', 'second', 'last']) {
      const agent = createUserAgent();
      const otherTab = await pending(agent, '/sign-in?app=elsewhere&return_to=/bin');
      const { callback } = await pending(agent);
      const withoutResponse = copyOf(agent);
      await open(agent, callback);
      const before = await records();
      const locations: string[] = [];
      for (let n = 0; n < 10; n += 1) locations.push(locationOf(await open(withoutResponse, callback)));
      expect((await records()).length - before.length).toBe(1);
      const end = locations.at({ first: 0, second: 1, last: -1 }[completing] ?? 0) ?? '';
      expect(locationOf(await open(withoutResponse, (await callbackFor(end)).href))).toBe('/sessions');
      expect(await isSignedIn(site, withoutResponse)).toBe(true);
      for (const location of locations)
        expect(locationOf(await open(withoutResponse, (await callbackFor(location)).href))).toBe('/sessions');
      expect(locationOf(await open(withoutResponse, otherTab.callback))).toBe('/bin');
    }
  });

  testOn('R10 starting over keeps every hint', async () => {
    const hints = { login_hint: 'ada@example.test', prompt: 'login', ui_locales: 'de en' };
    const { agent, callback } = await pending(undefined, `${START}&${new URLSearchParams(hints)}`);
    const withoutResponse = copyOf(agent);
    await open(agent, callback);
    const again = parametersOf(locationOf(await open(withoutResponse, callback)));
    for (const [name, value] of Object.entries(hints)) expect(again.get(name)).toContain(value);
    const connecting = await startConnecting(agent, hints);
    const { release, arrived } = holdTokens();
    const consentCallback = (await callbackFor(connecting)).href;
    const first = open(agent, consentCallback);
    await arrived;
    const consentAgain = parametersOf(locationOf(await open(agent, consentCallback)));
    for (const [name, value] of Object.entries(hints)) expect(consentAgain.get(name)).toContain(value);
    release();
    await first;
  });

  testOn('R103 a session that ended elsewhere is named, with the way to where the user was going', async () => {
    const agent = createUserAgent();
    const [first, second, evicted] = [
      await pending(agent),
      await pending(agent, `${START}%3Fa=b`),
      await pending(agent),
    ];
    await open(agent, first.callback);
    const withoutSession = createUserAgent();
    for (const { name, value } of agent.cookies.all())
      if (name.includes('-tx')) withoutSession.cookies.set(site.url, name, value);
    const page = await withoutSession.get(second.callback);
    expectNamedCause(page, SIGN_IN_FAILURES.session_ended.detail);
    expect(page.body).toContain('return_to=%2Fsessions%3Fa%3Db');
    const before = await records();
    expect(referenceOn(await withoutSession.get(second.callback))).toBe(referenceOn(page));
    expect(await records()).toEqual(before);
    // With a session of its user again, the request completes.
    await withoutSession.get((await pending(withoutSession)).callback);
    expect(locationOf(await open(withoutSession, second.callback))).toBe('/sessions?a=b');
    expect(locationOf(await open(withoutSession, evicted.callback))).toBe('/sessions');
  });

  testOn('R103 a connection whose session ended elsewhere leads back to its page', async () => {
    const agent = await signedIn();
    const callback = (await callbackFor(await startConnecting(agent, { return_to: '/sessions' }))).href;
    await agent.get((await pending(agent)).callback);
    const withoutSession = createUserAgent();
    for (const { name, value } of agent.cookies.all())
      if (name.includes('-tx')) withoutSession.cookies.set(site.url, name, value);
    const page = await withoutSession.get(callback);
    expectNamedCause(page, SIGN_IN_FAILURES.session_ended.detail);
    expect(page.body).toContain('/connections/connected?return_to=%2Fsessions');
  });

  testOn('R10 an unproven request does not end an attempt: the sentence for an evicted one stays', async () => {
    const asPost = (callback: string) => {
      const body = new URL(callback).searchParams;
      return createUserAgent().request(callback.split('?', 1)[0] ?? '', { method: 'POST', body });
    };
    for (const unproven of [(callback: string) => createUserAgent().get(callback), asPost]) {
      const { agent, callback } = await pending();
      expect((await unproven(callback)).status).toBe(400);
      for (let n = 0; n < 12; n += 1) await begin(site, { agent, path: START });
      const before = await records();
      const page = await agent.get(callback);
      expect(new URL(page.url).search).toBe('?ended=no_longer_pending');
      const changed = (await records()).filter(({ id, failure }) =>
        before.some((r) => r.id === id && r.failure !== failure),
      );
      expect(changed).toMatchObject([{ failure: 'no_longer_pending' }]);
    }
  });

  testOn('R10 a reload while the first call is under way starts over, whatever unproven requests came', async () => {
    const { agent, callback } = await pending();
    await createUserAgent().get(callback);
    const { release, arrived } = holdTokens();
    const first = open(agent, callback);
    await arrived;
    site.provider.reset();
    expect(locationOf(await open(agent, callback))).toMatch(`${site.provider.issuer}/authorize`);
    release();
    await first;
  });
});
