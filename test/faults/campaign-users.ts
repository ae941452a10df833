/** The users and the service of a campaign: their actions, and the promises that they check. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createCookieJar } from '../support/cookie-jar.ts';
import { sendRaw } from '../support/raw-http.ts';
import {
  ACCEPT_HTML,
  ACCEPT_JSON,
  FORM_BODY,
  type ReceivedResponse,
  type RequestDetails,
  sendRequest,
} from '../support/send-request.ts';
import type { Journal } from './campaign-journal.ts';
import { bankOf, type CampaignSite, isAdministrator } from './campaign-site.ts';
import type { Chance } from './chance.ts';

export interface CampaignUser {
  name: string;
  userId: string;
  /** `unknown`: a disconnect or a sign-in had no response. */
  connection: 'active' | 'ended' | 'unknown';
  session: Session | undefined;
  /** Cookies of sessions whose end was acknowledged. */
  endedSessions: string[];
  /** How often the user rightly had to reconnect because a provider's response was lost. */
  losses: number;
}

interface Session {
  cookie: string;
  csrfToken: string;
}

/** Longer than any deadline of Gatehouse plus any pause of a campaign. */
const MAX_WAIT_MILLISECONDS = 60_000;
/** Milliseconds until a user retries a failed sign-in. */
const SIGN_IN_PAUSE = [200, 1_500] as const;
const BEAT_MILLISECONDS = 50;
const NOTABLE_PAUSE_MILLISECONDS = 500;
/** The statuses of temporary refusals, which are allowed during a fault. */
const TEMPORARY = [429, 502, 503, 504];
const ADMIN_PATHS = [
  '',
  '/connections',
  '/sessions',
  '/sign-ins',
  '/audit',
  '/users',
  '/relay-tokens',
  '/bin',
  '/keys',
];

export interface CampaignUsers {
  readonly all: readonly CampaignUser[];
  /** Starts the actions of all users, until `stop`. */
  start(): void;
  stop(): Promise<void>;
  /**
   * After all faults, checks that this user has lost nothing. Signs in users who are signed out or disconnected.
   * @returns whether the user is signed in; a pause after the last fault may still prevent that
   */
  settle(user: CampaignUser): Promise<boolean>;
  close(): void;
}

export function createCampaignUsers(parts: {
  site: CampaignSite;
  chance: Chance;
  journal: Journal;
  names: readonly string[];
}): CampaignUsers {
  const { site, chance, journal } = parts;
  const { url } = site;
  const pauses = watchPauses();
  let isRunning = false;
  let loops: Promise<void>[] = [];
  const all = parts.names.map(
    (name): CampaignUser => ({
      name,
      userId: site.userIdOf(name),
      connection: 'ended',
      session: undefined,
      endedSessions: [],
      losses: 0,
    }),
  );

  /** Sends a request and checks the status. @returns undefined if there was no response */
  async function call(
    kind: string,
    path: string,
    request: RequestDetails,
    allowed: number[],
  ): Promise<ReceivedResponse | undefined> {
    const startedAt = performance.now();
    const timeout = sleep(MAX_WAIT_MILLISECONDS, undefined, { ref: false });
    const response = await Promise.race([sendRequest(url + path, request).catch((error: Error) => error), timeout]);
    if (response === undefined || response instanceof Error) {
      journal.count(kind, 'cut');
      if (!response) journal.addViolation(`${kind}: no response within ${MAX_WAIT_MILLISECONDS / 1_000} s`);
      else if (!journal.isExcused(kind, startedAt))
        journal.addViolation(`${kind}: cut without a fault (${response.message})`);
      return undefined;
    }
    const isAllowed = allowed.includes(response.status);
    journal.count(kind, isAllowed ? 'served' : 'refused');
    if (!isAllowed && !TEMPORARY.includes(response.status)) {
      const elapsed = Math.round(performance.now() - startedAt);
      const paused = Math.round(pauses.longest(startedAt));
      const when = `after ${elapsed} ms (longest pause of the campaign itself: ${paused} ms)`;
      journal.addViolation(`${kind}: ${response.status} ${codeOf(response)} ${when}`);
    }
    return response;
  }

  const headersOf = ({ session }: CampaignUser) => ({ ...ACCEPT_JSON, cookie: session?.cookie ?? '' });
  const post = (kind: string, path: string, user: CampaignUser, allowed: number[]) =>
    call(
      kind,
      path,
      {
        method: 'POST',
        headers: { ...headersOf(user), ...FORM_BODY },
        body: new URLSearchParams({ _csrf: user.session?.csrfToken ?? '' }).toString(),
      },
      allowed,
    );

  /** Signs in with a new browser. */
  async function signIn(user: CampaignUser): Promise<void> {
    const cookies = createCookieJar();
    const startResponse = await call('sign-in', '/sign-in', { headers: ACCEPT_HTML }, [303]);
    const location = startResponse?.headers.location;
    if (startResponse?.status !== 303 || location === undefined) {
      await sleep(chance.between(...SIGN_IN_PAUSE));
      return;
    }
    cookies.store(url, startResponse.headers['set-cookie'] ?? []);
    const callback = new URL(site.provider.authorize(location, user.name));
    if (user.connection === 'ended') user.connection = 'unknown';
    const headers = { ...ACCEPT_HTML, cookie: cookies.header(url) };
    const response = await call('callback', callback.pathname + callback.search, { headers }, [303]);
    if (response?.status !== 303) {
      await sleep(chance.between(...SIGN_IN_PAUSE));
      return;
    }
    cookies.store(url, response.headers['set-cookie'] ?? []);
    user.session = { cookie: cookies.header(url), csrfToken: '' };
    user.connection = 'active';
    await checkSession(user);
  }

  /** Checks that the user is still signed in as themselves. */
  async function checkSession(user: CampaignUser): Promise<void> {
    const response = await call('session', '/session', { headers: headersOf(user) }, [200]);
    if (response?.status !== 200 || !user.session) return;
    const { signedIn, user: account, csrfToken } = JSON.parse(response.body);
    if (!signedIn) {
      journal.addViolation(`session: an acknowledged sign-in of ${user.name} is gone`);
      user.session = undefined;
    } else {
      if (account.id !== user.userId) journal.addViolation(`session: ${user.name} is signed in as ${account.subject}`);
      user.session.csrfToken = csrfToken;
    }
  }

  async function requestThread(user: CampaignUser): Promise<void> {
    const response = await call('thread', '/threads/current', { headers: headersOf(user) }, [200, 403]);
    if (response) await checkThread(user, response);
  }

  /** F22: closes the connection before the response. A refresh that the request started continues. */
  async function hangUp({ session }: CampaignUser): Promise<void> {
    const head = ['GET /threads/current HTTP/1.1', `Host: ${new URL(url).host}`, `Cookie: ${session?.cookie}`];
    await sendRaw(url, `${head.join('\r\n')}\r\n\r\n`, chance.between(1, 30));
  }

  async function checkThread(user: CampaignUser, response: ReceivedResponse): Promise<void> {
    if (response.status === 200) {
      checkOwner('thread', user.userId, response);
      if (user.connection === 'ended') journal.addViolation(`thread: ${user.name} had disconnected`);
    }
    if (response.status !== 403) return;
    const code = codeOf(response);
    if (code === 'reconnect_needed') {
      await checkLoss(user);
      await signIn(user);
    } else if (code !== 'not_connected') {
      journal.addViolation(`thread: 403 ${code}`);
    } else if (user.connection === 'active') {
      journal.addViolation(`thread: the connection of ${user.name} is gone`);
    }
  }

  function checkOwner(kind: string, userId: string, { body }: ReceivedResponse): void {
    const { owner } = JSON.parse(body) as { owner?: string };
    if (owner !== userId) journal.addViolation(`${kind}: the thread of ${owner} was shown to ${userId}`);
  }

  /** A user must reconnect only if the provider no longer accepts the stored refresh token. */
  async function checkLoss(user: CampaignUser): Promise<void> {
    user.losses += 1;
    // The storage may be unavailable now.
    const stored = await site.storage.grants.loadStored(user.userId, 'platform').catch(() => undefined);
    if (!stored || 'unreadable' in stored || stored.grant.failure?.kind !== 'reconnect_needed') return;
    if (site.provider.accepts(stored.grant.refreshToken))
      journal.addViolation(`thread: ${user.name} has to reconnect (${stored.grant.failure.cause}) without need`);
  }

  async function disconnect(user: CampaignUser): Promise<void> {
    const response = await post('disconnect', '/connections/platform/disconnect', user, [200]);
    user.connection = response?.status === 200 ? 'ended' : 'unknown';
    if (user.connection === 'ended') await requestThread(user);
  }

  async function signOut(user: CampaignUser): Promise<void> {
    const { session } = user;
    const response = await post('sign-out', '/sign-out', user, [200]);
    user.session = undefined;
    if (response?.status === 200 && session) user.endedSessions.push(session.cookie);
    await signIn(user);
  }

  async function lookUpBin(user: CampaignUser | undefined): Promise<void> {
    const digits = `4571${String(chance.below(10_000)).padStart(4, '0')}`;
    const kind = user ? 'BIN' : 'relayed BIN';
    const [path, headers] = user
      ? [`/bin/${digits}`, headersOf(user)]
      : [`/relay/bin/${digits}`, { ...ACCEPT_JSON, authorization: `Bearer ${site.relayToken}` }];
    const response = await call(kind, path, { headers }, [200, 404]);
    // Local sources are used if the service is unavailable.
    if (response?.status !== 200 || response.headers['gatehouse-source'] === 'dataset') return;
    const { bank } = JSON.parse(response.body) as { bank?: { name?: string } };
    if (/service|cache/.test(String(response.headers['gatehouse-source'])) && bank?.name !== bankOf(digits))
      journal.addViolation(`${kind}: ${digits} has the bank ${bank?.name}`);
  }

  /** A call of a back-end service, for a random user. */
  async function callAsService(): Promise<void> {
    if (chance.fraction() < 0.3) return lookUpBin(undefined);
    const { userId, name, session, endedSessions } = chance.pick(all);
    const hasSignedIn = session !== undefined || endedSessions.length > 0;
    const headers = { ...ACCEPT_JSON, authorization: `Bearer ${site.relayToken}`, 'gatehouse-user': userId };
    const response = await call('relayed thread', '/relay/threads/current', { headers }, [200, 403, 404]);
    if (response?.status === 404 && hasSignedIn) journal.addViolation(`relayed thread: ${name} is unknown`);
    if (response?.status === 200) checkOwner('relayed thread', userId, response);
    if (response?.status === 403 && !/not_connected|reconnect_needed/.test(codeOf(response)))
      journal.addViolation(`relayed thread: 403 ${codeOf(response)}`);
  }

  async function openPage(kind: string, path: string, user: CampaignUser): Promise<void> {
    await call(kind, path, { headers: { ...headersOf(user), ...ACCEPT_HTML } }, [200]);
  }

  /** One random action of this user. */
  async function act(user: CampaignUser): Promise<void> {
    if (!user.session?.csrfToken) return user.session ? checkSession(user) : signIn(user);
    const choice = chance.fraction();
    if (user.connection === 'unknown') return signIn(user);
    // Call several times while disconnected.
    if (user.connection === 'ended') return choice < 0.8 ? requestThread(user) : signIn(user);
    if (isAdministrator(user.name) && choice < 0.6) {
      const path = `/admin${chance.pick(ADMIN_PATHS)}`;
      return openPage('admin page', path, user);
    }
    if (choice < 0.5) return requestThread(user);
    if (choice < 0.57) {
      await Promise.all([requestThread(user), requestThread(user), checkSession(user)]);
      return;
    }
    if (choice < 0.6) return hangUp(user);
    if (choice < 0.75) return lookUpBin(user);
    if (choice < 0.83) return checkSession(user);
    if (choice < 0.9) return openPage('page', chance.pick(['/', '/connections']), user);
    if (choice < 0.94) return signIn(user);
    return choice < 0.97 ? disconnect(user) : signOut(user);
  }

  async function repeat(work: () => Promise<void>): Promise<void> {
    await sleep(chance.between(0, 500));
    while (isRunning) {
      await work();
      await sleep(chance.between(20, 200));
    }
  }

  return {
    all,
    start() {
      isRunning = true;
      loops = [...all.map((user) => repeat(() => act(user))), repeat(callAsService), repeat(callAsService)];
    },
    async stop() {
      isRunning = false;
      await Promise.all(loops);
    },
    async settle(user) {
      await checkSession(user);
      if (user.session) await requestThread(user);
      if (!user.session || user.connection !== 'active') await signIn(user);
      if (!user.session) return false;
      await requestThread(user);
      for (const cookie of user.endedSessions) {
        const response = await call(
          'ended session',
          '/threads/current',
          { headers: { ...ACCEPT_JSON, cookie } },
          [401],
        );
        if (response?.status === 200) journal.addViolation(`a session that ${user.name} had ended came back`);
      }
      return true;
    },
    close: pauses.stop,
  };
}

function codeOf({ body }: ReceivedResponse): string {
  try {
    return String((JSON.parse(body) as { code?: unknown }).code);
  } catch {
    return body.slice(0, 100);
  }
}

/** Measures pauses of this process, which also runs the balancer and the provider. During a pause all requests wait. */
function watchPauses() {
  const pauses: { until: number; milliseconds: number }[] = [];
  let lastBeatAt = performance.now();
  const beats = setInterval(() => {
    const now = performance.now();
    const milliseconds = now - lastBeatAt;
    lastBeatAt = now;
    if (milliseconds > NOTABLE_PAUSE_MILLISECONDS) pauses.push({ until: now, milliseconds });
  }, BEAT_MILLISECONDS);
  return {
    /** The longest pause since this time in milliseconds, including the current one. */
    longest: (since: number) =>
      Math.max(
        performance.now() - lastBeatAt,
        ...pauses.filter(({ until }) => until > since).map(({ milliseconds }) => milliseconds),
      ),
    stop: () => clearInterval(beats),
  };
}
