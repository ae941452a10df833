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

export interface CampaignPerson {
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

export interface People {
  readonly all: readonly CampaignPerson[];
  /** Starts the actions of all users, until `stop`. */
  start(): void;
  stop(): Promise<void>;
  /**
   * After all faults, checks that this user has lost nothing. Signs in users who are signed out or disconnected.
   * @returns whether the user is signed in; a pause after the last fault may still prevent that
   */
  settle(person: CampaignPerson): Promise<boolean>;
  close(): void;
}

export function createPeople(parts: {
  site: CampaignSite;
  chance: Chance;
  journal: Journal;
  names: readonly string[];
}): People {
  const { site, chance, journal } = parts;
  const { url } = site;
  const pauses = watchPauses();
  let isRunning = false;
  let loops: Promise<void>[] = [];
  const all = parts.names.map(
    (name): CampaignPerson => ({
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
    question: RequestDetails,
    allowed: number[],
  ): Promise<ReceivedResponse | undefined> {
    const since = performance.now();
    const timeout = sleep(MAX_WAIT_MILLISECONDS, undefined, { ref: false });
    const response = await Promise.race([sendRequest(url + path, question).catch((error: Error) => error), timeout]);
    if (response === undefined || response instanceof Error) {
      journal.count(kind, 'cut');
      if (!response) journal.addViolation(`${kind}: no response within ${MAX_WAIT_MILLISECONDS / 1_000} s`);
      else if (!journal.isExcused(kind, since))
        journal.addViolation(`${kind}: cut without a fault (${response.message})`);
      return undefined;
    }
    const isAllowed = allowed.includes(response.status);
    journal.count(kind, isAllowed ? 'served' : 'refused');
    if (!isAllowed && !TEMPORARY.includes(response.status)) {
      const [elapsed, paused] = [performance.now() - since, pauses.longest(since)].map(Math.round);
      const when = `after ${elapsed} ms (longest pause of the campaign itself: ${paused} ms)`;
      journal.addViolation(`${kind}: ${response.status} ${codeOf(response)} ${when}`);
    }
    return response;
  }

  const headersOf = ({ session }: CampaignPerson) => ({ ...ACCEPT_JSON, cookie: session?.cookie ?? '' });
  const post = (kind: string, path: string, person: CampaignPerson, allowed: number[]) =>
    call(
      kind,
      path,
      {
        method: 'POST',
        headers: { ...headersOf(person), ...FORM_BODY },
        body: new URLSearchParams({ _csrf: person.session?.csrfToken ?? '' }).toString(),
      },
      allowed,
    );

  /** Signs in with a new browser. */
  async function signIn(person: CampaignPerson): Promise<void> {
    const cookies = createCookieJar();
    const begun = await call('sign-in', '/sign-in', { headers: ACCEPT_HTML }, [303]);
    const location = begun?.headers.location;
    if (begun?.status !== 303 || location === undefined) return void (await sleep(chance.between(...SIGN_IN_PAUSE)));
    cookies.store(url, begun.headers['set-cookie'] ?? []);
    const callback = new URL(site.provider.authorize(location, person.name));
    if (person.connection === 'ended') person.connection = 'unknown';
    const headers = { ...ACCEPT_HTML, cookie: cookies.header(url) };
    const response = await call('callback', callback.pathname + callback.search, { headers }, [303]);
    if (response?.status !== 303) return void (await sleep(chance.between(...SIGN_IN_PAUSE)));
    cookies.store(url, response.headers['set-cookie'] ?? []);
    person.session = { cookie: cookies.header(url), csrfToken: '' };
    person.connection = 'active';
    await checkSession(person);
  }

  /** Checks that the user is still signed in as themselves. */
  async function checkSession(person: CampaignPerson): Promise<void> {
    const response = await call('session', '/session', { headers: headersOf(person) }, [200]);
    if (response?.status !== 200 || !person.session) return;
    const { signedIn, user, csrfToken } = JSON.parse(response.body);
    if (!signedIn) {
      journal.addViolation(`session: an acknowledged sign-in of ${person.name} is gone`);
      person.session = undefined;
    } else {
      if (user.id !== person.userId) journal.addViolation(`session: ${person.name} is signed in as ${user.subject}`);
      person.session.csrfToken = csrfToken;
    }
  }

  async function thread(person: CampaignPerson): Promise<void> {
    const response = await call('thread', '/threads/current', { headers: headersOf(person) }, [200, 403]);
    if (response) await checkThread(person, response);
  }

  /** F22: closes the connection before the response. A refresh that the request started continues. */
  async function hangUp({ session }: CampaignPerson): Promise<void> {
    const head = ['GET /threads/current HTTP/1.1', `Host: ${new URL(url).host}`, `Cookie: ${session?.cookie}`];
    await sendRaw(url, `${head.join('\r\n')}\r\n\r\n`, chance.between(1, 30));
  }

  async function checkThread(person: CampaignPerson, response: ReceivedResponse): Promise<void> {
    if (response.status === 200) {
      checkOwner('thread', person.userId, response);
      if (person.connection === 'ended') journal.addViolation(`thread: ${person.name} had disconnected`);
    }
    if (response.status !== 403) return;
    const code = codeOf(response);
    if (code === 'reconnect_needed') await checkLoss(person);
    else if (code !== 'not_connected') journal.addViolation(`thread: 403 ${code}`);
    else if (person.connection === 'active') journal.addViolation(`thread: the connection of ${person.name} is gone`);
    if (code === 'reconnect_needed') await signIn(person);
  }

  function checkOwner(kind: string, userId: string, { body }: ReceivedResponse): void {
    const { owner } = JSON.parse(body) as { owner?: string };
    if (owner !== userId) journal.addViolation(`${kind}: the thread of ${owner} was shown to ${userId}`);
  }

  /** A user must reconnect only if the provider no longer accepts the stored refresh token. */
  async function checkLoss(person: CampaignPerson): Promise<void> {
    person.losses += 1;
    // The storage may be unavailable now.
    const stored = await site.vault.grants.loadStored(person.userId, 'platform').catch(() => undefined);
    if (!stored || 'unreadable' in stored || stored.grant.failure?.kind !== 'reconnect_needed') return;
    if (site.provider.accepts(stored.grant.refreshToken))
      journal.addViolation(`thread: ${person.name} has to reconnect (${stored.grant.failure.cause}) without need`);
  }

  async function disconnect(person: CampaignPerson): Promise<void> {
    const response = await post('disconnect', '/connections/platform/disconnect', person, [200]);
    person.connection = response?.status === 200 ? 'ended' : 'unknown';
    if (person.connection === 'ended') await thread(person);
  }

  async function signOut(person: CampaignPerson): Promise<void> {
    const { session } = person;
    const response = await post('sign-out', '/sign-out', person, [200]);
    person.session = undefined;
    if (response?.status === 200 && session) person.endedSessions.push(session.cookie);
    await signIn(person);
  }

  async function bin(person: CampaignPerson | undefined): Promise<void> {
    const digits = `4571${String(chance.below(10_000)).padStart(4, '0')}`;
    const kind = person ? 'BIN' : 'relayed BIN';
    const [path, headers] = person
      ? [`/bin/${digits}`, headersOf(person)]
      : [`/relay/bin/${digits}`, { ...ACCEPT_JSON, authorization: `Bearer ${site.relayToken}` }];
    const response = await call(kind, path, { headers }, [200, 404]);
    // Local sources are used if the service is unavailable.
    if (response?.status !== 200 || response.headers['gatehouse-source'] === 'dataset') return;
    const { bank } = JSON.parse(response.body) as { bank?: { name?: string } };
    if (/service|cache/.test(String(response.headers['gatehouse-source'])) && bank?.name !== bankOf(digits))
      journal.addViolation(`${kind}: ${digits} has the bank ${bank?.name}`);
  }

  /** A call of a back-end service, for a random user. */
  async function service(): Promise<void> {
    if (chance.fraction() < 0.3) return bin(undefined);
    const { userId, name, session, endedSessions } = chance.pick(all);
    const hasSignedIn = session !== undefined || endedSessions.length > 0;
    const headers = { ...ACCEPT_JSON, authorization: `Bearer ${site.relayToken}`, 'gatehouse-user': userId };
    const response = await call('relayed thread', '/relay/threads/current', { headers }, [200, 403, 404]);
    if (response?.status === 404 && hasSignedIn) journal.addViolation(`relayed thread: ${name} is unknown`);
    if (response?.status === 200) checkOwner('relayed thread', userId, response);
    if (response?.status === 403 && !/not_connected|reconnect_needed/.test(codeOf(response)))
      journal.addViolation(`relayed thread: 403 ${codeOf(response)}`);
  }

  async function act(person: CampaignPerson): Promise<void> {
    if (!person.session?.csrfToken) return person.session ? checkSession(person) : signIn(person);
    const choice = chance.fraction();
    if (person.connection === 'unknown') return signIn(person);
    // Call several times while disconnected.
    if (person.connection === 'ended') return choice < 0.8 ? thread(person) : signIn(person);
    if (isAdministrator(person.name) && choice < 0.6) {
      const path = `/admin${chance.pick(ADMIN_PATHS)}`;
      return void (await call('admin page', path, { headers: { ...headersOf(person), ...ACCEPT_HTML } }, [200]));
    }
    if (choice < 0.5) return thread(person);
    if (choice < 0.57) return void (await Promise.all([thread(person), thread(person), checkSession(person)]));
    if (choice < 0.6) return hangUp(person);
    if (choice < 0.75) return bin(person);
    if (choice < 0.83) return checkSession(person);
    if (choice < 0.9)
      return void (await call(
        'page',
        chance.pick(['/', '/connections']),
        { headers: { ...headersOf(person), ...ACCEPT_HTML } },
        [200],
      ));
    if (choice < 0.94) return signIn(person);
    return choice < 0.97 ? disconnect(person) : signOut(person);
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
      loops = [...all.map((person) => repeat(() => act(person))), repeat(service), repeat(service)];
    },
    async stop() {
      isRunning = false;
      await Promise.all(loops);
    },
    async settle(person) {
      await checkSession(person);
      if (person.session) await thread(person);
      if (!person.session || person.connection !== 'active') await signIn(person);
      if (!person.session) return false;
      await thread(person);
      for (const cookie of person.endedSessions) {
        const response = await call(
          'ended session',
          '/threads/current',
          { headers: { ...ACCEPT_JSON, cookie } },
          [401],
        );
        if (response?.status === 200) journal.addViolation(`a session that ${person.name} had ended came back`);
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
  let last = performance.now();
  const beats = setInterval(() => {
    const [now, before] = [performance.now(), last];
    last = now;
    if (now - before > NOTABLE_PAUSE_MILLISECONDS) pauses.push({ until: now, milliseconds: now - before });
  }, BEAT_MILLISECONDS);
  return {
    /** The longest pause since this time in milliseconds, including the current one. */
    longest: (since: number) =>
      Math.max(
        performance.now() - last,
        ...pauses.filter(({ until }) => until > since).map(({ milliseconds }) => milliseconds),
      ),
    stop: () => clearInterval(beats),
  };
}
