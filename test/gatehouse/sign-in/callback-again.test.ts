/** R9, R10: a callback that is opened again changes nothing in the record of the first time, and leads the user on. */
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

  /** Starts a sign-in, up to the provider's redirect. @returns the callback URL, which is not opened */
  const startSignIn = async (agent = createUserAgent(), path = START) => {
    const { location } = await begin(site, { agent, path });
    return { agent, location, callback: (await callbackFor(location)).href };
  };
  const startTenTabs = async (agent: UserAgent) => {
    const paths = Array.from({ length: 10 }, (_, tab) => `/problems/not_found?tab=${tab}`);
    return Promise.all(
      paths.map(async (path) => {
        const start = `/sign-in?app=elsewhere&return_to=${encodeURIComponent(path)}`;
        const { callback } = await startSignIn(agent, start);
        return { path, callback };
      }),
    );
  };
  const startConnecting = async (agent: UserAgent, fields: Record<string, string>) => {
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent), ...fields });
    const url = `${site.url}/connections/connected`;
    const page = await agent.request(url, { method: 'POST', body, follow: false });
    return locationOf(page);
  };
  const signIn = async () => {
    const { agent, callback } = await startSignIn();
    await agent.get(callback);
    expect(await isSignedIn(site, agent)).toBe(true);
    return agent;
  };
  const readRecords = async () => {
    const records: SignInRecord[] = [];
    for (const item of await storage.items())
      if ('record' in item && item.record.startsWith('sign-in:')) records.push(JSON.parse(item.value));
    return records;
  };
  const expectNoChangeIn = async (earlierRecords: readonly SignInRecord[]) => {
    const currentRecords = await readRecords();
    for (const record of earlierRecords) expect(currentRecords).toContainEqual(record);
  };
  const open = (agent: UserAgent, url: string) => agent.get(url, { follow: false });
  const locationOf = (page: Page) => page.headers.get('location') ?? '';
  const parametersOf = (location: string) => new URL(location, site.url).searchParams;
  const referenceOn = ({ body }: Page) => /data-copy-source>([^<]+)</.exec(body)?.[1];
  /** A browser with the cookies that the other one has now. Later changes of the other one do not reach it. */
  const copyOf = (agent: UserAgent) => {
    const copy = createUserAgent();
    for (const { name, value } of agent.cookies.all()) copy.cookies.set(site.url, name, value);
    return copy;
  };
  const copyWithoutSession = (agent: UserAgent) => {
    const copy = createUserAgent();
    for (const { name, value } of secretCookiesOf(agent)) copy.cookies.set(site.url, name, value);
    return copy;
  };
  /** Lets the token endpoint respond only after `release`. `arrived` resolves when its request arrives. */
  const holdTokenResponse = () => {
    const released = Promise.withResolvers<void>();
    const arrived = Promise.withResolvers<void>();
    site.provider.setModes({
      responses: {
        token: (res) => {
          arrived.resolve();
          void released.promise.then(() => res.writeHead(503).end());
        },
      },
    });
    return { release: released.resolve, arrived: arrived.promise };
  };

  testOn(
    'R10 a callback that is opened again after a success leads to the return path, without another token request',
    async () => {
      for (const returnTo of ['/sessions', 'https://front.example.test/board']) {
        site.provider.reset();
        const { agent, callback } = await startSignIn(undefined, `/sign-in?app=elsewhere&return_to=${returnTo}`);
        expect(locationOf(await open(agent, callback))).toBe(returnTo);
        const recordsBefore = await readRecords();

        for (let n = 0; n < 3; n += 1) expect(locationOf(await open(agent, callback))).toBe(returnTo);
        expect(await readRecords()).toEqual(recordsBefore);
        expect(site.provider.hitsOf('token')).toHaveLength(1);
      }
    },
  );

  testOn(
    'R10 a callback that is opened again after a refusal shows the same page, whether the user is signed in or not',
    async () => {
      const refusals = [
        { failure: 'access_denied', path: START, mode: 'callback-access-denied' },
        { failure: 'not_permitted', path: '/sign-in?app=staff', mode: undefined },
        { failure: 'token_response_refused', path: START, mode: 'id-token-wrong-nonce' },
      ] as const;
      for (const { failure, path, mode } of refusals) {
        site.provider.reset();
        if (mode) site.provider.setModes(mode);
        const { agent, callback } = await startSignIn(undefined, path);
        const first = await agent.get(callback);
        expectNamedCause(first, SIGN_IN_FAILURES[failure].detail);
        const recordsBefore = await readRecords();
        const expectSamePage = async () => {
          const second = await agent.get(callback);
          expect([second.status, referenceOn(second)]).toEqual([first.status, referenceOn(first)]);
          expectNamedCause(second, SIGN_IN_FAILURES[failure].detail);
        };

        await expectSamePage();
        expect(await readRecords()).toEqual(recordsBefore);

        site.provider.reset();
        await agent.get((await startSignIn(agent)).callback);
        expect(await isSignedIn(site, agent)).toBe(true);
        await expectSamePage();
        await expectNoChangeIn(recordsBefore);
      }
    },
  );

  testOn(
    'R10 "Try again" and "Use another account" on a page that is shown again lead to the return path',
    async () => {
      site.provider.setModes('callback-access-denied');
      const { agent, callback } = await startSignIn();
      const signInLinksOn = ({ body }: Page) =>
        [...body.matchAll(/href="([^"]*sign-in\?[^"]*)"/g)].map(([, href]) => href);

      const links = signInLinksOn(await agent.get(callback));
      expect(links.length).toBe(2);
      for (const href of links) expect(href).toContain('return_to=%2Fsessions');
      expect(signInLinksOn(await agent.get(callback))).toEqual(links);
    },
  );

  testOn('R10 a callback that is opened again after ten others still leads to the return path', async () => {
    const user = await signIn();
    site.provider.setModes('callback-access-denied');
    const signedOut = await startSignIn(undefined, '/sign-in?app=elsewhere&return_to=/sessions?personal=path');
    const connecting = await callbackFor(await startConnecting(user, { return_to: '/sessions?personal=path' }));
    for (const { agent, callback } of [signedOut, { agent: user, callback: connecting.href }]) {
      const first = await agent.get(callback);
      expect(first.body).toContain('return_to=%2Fsessions%3Fpersonal%3Dpath');
      for (let n = 0; n < 11; n += 1) await agent.get((await startSignIn(agent)).callback);
      const recordsBefore = await readRecords();
      const second = await agent.get(callback);
      expect([second.status, referenceOn(second)]).toEqual([first.status, referenceOn(first)]);
      expect(second.body).toContain('return_to=%2Fsessions%3Fpersonal%3Dpath');
      expect(await readRecords()).toEqual(recordsBefore);
    }
    site.provider.reset();
    for (const returnTo of ['/sessions?personal=path', 'https://front.example.test/board']) {
      const query = new URLSearchParams({ app: 'elsewhere', return_to: returnTo });
      const { agent, callback } = await startSignIn(undefined, `/sign-in?${query}`);
      expect(locationOf(await open(agent, callback))).toBe(returnTo);
      for (let n = 0; n < 11; n += 1) await open(agent, (await startSignIn(agent)).callback);
      expect(locationOf(await open(agent, callback))).toBe(returnTo);
      expect(locationOf(await open(copyWithoutSession(agent), callback))).not.toBe(returnTo);
    }
    const stored = (await storage.items()).filter((item) => 'record' in item && item.record.startsWith('sign-in'));
    expect(stored.length).toBeGreaterThan(20);
    expect(JSON.stringify(stored)).not.toContain('personal');
  });

  testOn(
    'R9 a callback that is opened again while its token request is under way starts over, and the user is signed in',
    async () => {
      const { agent, callback } = await startSignIn();
      const { release, arrived } = holdTokenResponse();
      const first = open(agent, callback);
      await arrived;
      site.provider.reset();
      const others = await Promise.all([1, 2, 3].map(() => open(agent, callback)));
      for (const page of others) expect(locationOf(page)).toMatch(`${site.provider.issuer}/authorize`);
      const pages = await Promise.all(others.map((page) => agent.get(locationOf(page), { follow: true })));
      for (const page of pages) expect(new URL(page.url).pathname).toBe('/sessions');
      expect(await isSignedIn(site, agent)).toBe(true);

      release();
      expect((await first).status).toBe(503);
      expect(await isSignedIn(site, agent)).toBe(true);
    },
  );

  testOn('R10 a sign-in whose first response the browser lost starts over once, with the same prompt', async () => {
    const { agent, location, callback } = await startSignIn(undefined, `${START}&prompt=login`);
    const withoutResponse = copyOf(agent);
    await open(agent, callback);
    const recordsBefore = await readRecords();

    const secondLocation = locationOf(await open(withoutResponse, callback));
    expect(parametersOf(secondLocation).get('prompt')).toBe(parametersOf(location).get('prompt'));

    const secondCallback = (await callbackFor(secondLocation)).href;
    // This response is lost, too.
    await open(copyOf(withoutResponse), secondCallback);
    const notStarted = await withoutResponse.get(secondCallback);
    expect([notStarted.status, new URL(notStarted.url).search]).toEqual([200, '?ended=no_longer_pending']);
    await expectNoChangeIn(recordsBefore);
    const returned = await withoutResponse.get(callback);
    expect(new URL(returned.url).pathname).toBe('/sessions');
  });

  testOn('R10 a consent that is still under way starts over with the chosen scopes, and completes', async () => {
    const agent = await signIn();
    const fields = { scope: 'openid profile', choose: '1', prompt: 'select_account', return_to: '/connections' };
    const location = await startConnecting(agent, fields);
    const { release, arrived } = holdTokenResponse();
    const callback = (await callbackFor(location)).href;
    const first = open(agent, callback);
    await arrived;
    site.provider.reset();

    const secondLocation = locationOf(await open(agent, callback));
    for (const name of ['scope', 'prompt', 'redirect_uri'])
      expect([name, parametersOf(secondLocation).get(name)]).toEqual([name, parametersOf(location).get(name)]);

    const secondCallback = (await callbackFor(secondLocation)).href;
    expect(locationOf(await open(agent, secondCallback))).toBe('/connections');
    expect(locationOf(await open(agent, secondCallback))).toBe('/connections');

    release();
    await first;
    const { items } = (await getJson(agent, `${site.url}/connections`)).json as { items: { app: string }[] };
    expect(items.map(({ app }) => app)).toContain('connected');
  });

  testOn(
    'R10 a consent of a user who has signed out does not start over, but leads to the page of the connection',
    async () => {
      const agent = await signIn();
      const { release, arrived } = holdTokenResponse();
      const callback = (await callbackFor(await startConnecting(agent, { return_to: '/sessions' }))).href;
      const first = open(agent, callback);
      await arrived;

      const signedOut = copyWithoutSession(agent);
      expect(locationOf(await open(signedOut, callback))).toBe('/connections/connected?return_to=%2Fsessions');
      release();
      await first;
    },
  );

  testOn('R64 ten sign-ins that start at once in a browser without cookies all finish, in any order', async () => {
    for (const order of ['first to last', 'last to first', 'at once']) {
      const agent = createUserAgent();
      const tabs = await startTenTabs(agent);

      const locations = new Map<string, string>();
      const finish = async ({ path, callback }: { path: string; callback: string }) => {
        locations.set(path, locationOf(await open(agent, callback)));
      };
      if (order === 'last to first') tabs.reverse();
      if (order === 'at once') await Promise.all(tabs.map(finish));
      else for (const tab of tabs) await finish(tab);

      for (const { path } of tabs) expect([order, locations.get(path)]).toEqual([order, path]);
      expect(await isSignedIn(site, agent)).toBe(true);
      expect(secretCookiesOf(agent).length).toBeLessThanOrEqual(20);
      await agent.get((await startSignIn(agent)).callback);
      expect(secretCookiesOf(agent).length).toBeLessThanOrEqual(20);
    }
  });

  testOn(
    'R6, R10 a callback whose request twelve later starts displaced leads to the start page, which names the cause',
    async () => {
      const { agent, callback } = await startSignIn();
      for (let n = 0; n < 12; n += 1) await begin(site, { agent, path: START });

      const page = await agent.get(callback);
      expect([page.status, new URL(page.url).pathname]).toEqual([200, '/']);
      expect(textOf(page.body)).toContain(SIGN_IN_FAILURES.no_longer_pending.detail);
      expect(textOf(page.body)).not.toMatch(/already|used/);

      const displacedRecords = (await readRecords()).filter(({ failure }) => failure === 'no_longer_pending');
      expect(displacedRecords).toHaveLength(1);
      expect((await agent.get(callback)).url).toBe(page.url);
      await expectNoChangeIn(displacedRecords);
      expect(site.provider.hitsOf('token')).toEqual([]);
    },
  );

  testOn('R10 another browser that opens the callback of an ended attempt changes nothing in its record', async () => {
    site.provider.setModes('callback-access-denied');
    const { agent, callback } = await startSignIn();
    await agent.get(callback);
    const recordsBefore = await readRecords();

    expectNamedCause(await createUserAgent().get(callback), SIGN_IN_FAILURES.cookie_missing.detail);
    expectNamedCause(await (await begin(site)).agent.get(callback), SIGN_IN_FAILURES.cookie_missing.detail);
    await expectNoChangeIn(recordsBefore);
  });

  testOn('R10, R64 a request that is pending at the provider survives three sign-ins in another tab', async () => {
    const agent = await signIn();
    const location = await startConnecting(agent, { return_to: '/sessions' });
    for (let n = 0; n < 3; n += 1) await agent.get((await startSignIn(agent)).callback);

    expect(locationOf(await open(agent, (await callbackFor(location)).href))).toBe('/sessions');
    const { items } = (await getJson(agent, `${site.url}/connections`)).json as { items: { app: string }[] };
    expect(items.map(({ app }) => app)).toContain('connected');
  });

  testOn('R64 nine of ten tabs finish after the first one and another sign-in have finished', async () => {
    const agent = createUserAgent();
    const tabs = await startTenTabs(agent);
    await open(agent, tabs[0]?.callback ?? '');
    await agent.get((await startSignIn(agent)).callback);

    for (const { path, callback } of tabs) expect(locationOf(await open(agent, callback))).toBe(path);
  });

  testOn('R10 a callback that is opened again after later sign-ins has the same result as the first time', async () => {
    const agent = createUserAgent();
    site.provider.setModes('callback-access-denied');
    const denied = await startSignIn(agent);
    const deniedPage = await agent.get(denied.callback);

    site.provider.reset();
    site.provider.signInAs(ADA);
    const succeeded = await startSignIn(agent);
    expect(locationOf(await open(agent, succeeded.callback))).toBe('/sessions');
    for (let n = 0; n < 2; n += 1) await agent.get((await startSignIn(agent)).callback);

    expect(locationOf(await open(agent, succeeded.callback))).toBe('/sessions');
    const reopenedPage = await agent.get(denied.callback);
    expect([reopenedPage.status, referenceOn(reopenedPage)]).toEqual([deniedPage.status, referenceOn(deniedPage)]);
  });

  testOn(
    'R10 a callback whose secret twenty newer ones displaced leads to the start page, and its attempt has failed',
    async () => {
      const agent = await signIn();
      const location = await startConnecting(agent, { return_to: '/sessions' });
      for (let n = 0; n < 21; n += 1) await agent.get((await startSignIn(agent)).callback);
      expect(secretCookiesOf(agent)).toHaveLength(20);

      const page = await agent.get((await callbackFor(location)).href);
      expect(new URL(page.url).search).toBe('?ended=cookie_missing');
      expect(textOf(page.body)).toContain(SIGN_IN_FAILURES.cookie_missing.detail);
      const records = await readRecords();
      const ofConnection = records.filter(
        ({ failure, purpose }) => failure === 'cookie_missing' && purpose === 'connect',
      );
      expect(ofConnection).toHaveLength(1);
    },
  );

  testOn('R6, R10 reloads of one callback share one pending request, and each of them can complete it', async () => {
    for (const completedReload of [0, 1, 9]) {
      const agent = createUserAgent();
      const otherTab = await startSignIn(agent, '/sign-in?app=elsewhere&return_to=/bin');
      const { callback } = await startSignIn(agent);
      const withoutResponse = copyOf(agent);
      await open(agent, callback);
      const recordsBefore = await readRecords();

      const locations: string[] = [];
      for (let n = 0; n < 10; n += 1) locations.push(locationOf(await open(withoutResponse, callback)));
      expect((await readRecords()).length - recordsBefore.length).toBe(1);

      const completedLocation = locations[completedReload] ?? '';
      expect(locationOf(await open(withoutResponse, (await callbackFor(completedLocation)).href))).toBe('/sessions');
      expect(await isSignedIn(site, withoutResponse)).toBe(true);
      for (const location of locations)
        expect(locationOf(await open(withoutResponse, (await callbackFor(location)).href))).toBe('/sessions');
      expect(locationOf(await open(withoutResponse, otherTab.callback))).toBe('/bin');
    }
  });

  testOn('R10 a sign-in or a consent that starts over keeps every hint', async () => {
    const hints = { login_hint: 'ada@example.test', prompt: 'login', ui_locales: 'de en' };
    const { agent, callback } = await startSignIn(undefined, `${START}&${new URLSearchParams(hints)}`);
    const withoutResponse = copyOf(agent);
    await open(agent, callback);
    const parameters = parametersOf(locationOf(await open(withoutResponse, callback)));
    for (const [name, value] of Object.entries(hints)) expect(parameters.get(name)).toContain(value);

    const consentLocation = await startConnecting(agent, hints);
    const { release, arrived } = holdTokenResponse();
    const consentCallback = (await callbackFor(consentLocation)).href;
    const first = open(agent, consentCallback);
    await arrived;
    const consentParameters = parametersOf(locationOf(await open(agent, consentCallback)));
    for (const [name, value] of Object.entries(hints)) expect(consentParameters.get(name)).toContain(value);
    release();
    await first;
  });

  testOn(
    'R103 a callback whose session ended elsewhere names this, and its page leads to the return path',
    async () => {
      const agent = createUserAgent();
      const first = await startSignIn(agent);
      const second = await startSignIn(agent, `${START}%3Fa=b`);
      const third = await startSignIn(agent);
      await open(agent, first.callback);
      const withoutSession = copyWithoutSession(agent);

      const page = await withoutSession.get(second.callback);
      expectNamedCause(page, SIGN_IN_FAILURES.session_ended.detail);
      expect(page.body).toContain('return_to=%2Fsessions%3Fa%3Db');

      const recordsBefore = await readRecords();
      expect(referenceOn(await withoutSession.get(second.callback))).toBe(referenceOn(page));
      expect(await readRecords()).toEqual(recordsBefore);

      // The request completes once its user is signed in.
      await withoutSession.get((await startSignIn(withoutSession)).callback);
      expect(locationOf(await open(withoutSession, second.callback))).toBe('/sessions?a=b');
      expect(locationOf(await open(withoutSession, third.callback))).toBe('/sessions');
    },
  );

  testOn('R103 a connection whose session ended elsewhere leads back to its page', async () => {
    const agent = await signIn();
    const callback = (await callbackFor(await startConnecting(agent, { return_to: '/sessions' }))).href;
    await agent.get((await startSignIn(agent)).callback);
    const withoutSession = copyWithoutSession(agent);

    const page = await withoutSession.get(callback);
    expectNamedCause(page, SIGN_IN_FAILURES.session_ended.detail);
    expect(page.body).toContain('/connections/connected?return_to=%2Fsessions');
  });

  testOn('R10 an unproven request does not end an attempt, whose own callback still names why it ended', async () => {
    const openInOtherBrowser = (callback: string) => createUserAgent().get(callback);
    const sendAsPost = (callback: string) => {
      const body = new URL(callback).searchParams;
      return createUserAgent().request(callback.split('?', 1)[0] ?? '', { method: 'POST', body });
    };
    for (const sendUnproven of [openInOtherBrowser, sendAsPost]) {
      const { agent, callback } = await startSignIn();
      expect((await sendUnproven(callback)).status).toBe(400);
      for (let n = 0; n < 12; n += 1) await begin(site, { agent, path: START });
      const recordsBefore = await readRecords();

      const page = await agent.get(callback);
      expect(new URL(page.url).search).toBe('?ended=no_longer_pending');
      const failuresBefore = new Map(recordsBefore.map(({ id, failure }) => [id, failure]));
      const changedRecords = (await readRecords()).filter(
        ({ id, failure }) => failuresBefore.has(id) && failuresBefore.get(id) !== failure,
      );
      expect(changedRecords).toMatchObject([{ failure: 'no_longer_pending' }]);
    }
  });

  testOn('R10 a reload while the first call is under way starts over, even after an unproven request', async () => {
    const { agent, callback } = await startSignIn();
    await createUserAgent().get(callback);
    const { release, arrived } = holdTokenResponse();
    const first = open(agent, callback);
    await arrived;
    site.provider.reset();
    expect(locationOf(await open(agent, callback))).toMatch(`${site.provider.issuer}/authorize`);
    release();
    await first;
  });
});
