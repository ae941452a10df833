/** The users and the service of a campaign: what each does, and which promises each checks. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Asked, ask, DATA, FORM, PAGE, type Question } from '../support/ask.ts';
import { createCookieJar } from '../support/cookie-jar.ts';
import { sendRaw } from '../support/raw-http.ts';
import type { Journal } from './campaign-journal.ts';
import { bankOf, type CampaignSite, isAdministrator } from './campaign-site.ts';
import type { Chance } from './chance.ts';

export interface CampaignPerson {
  name: string;
  userId: string;
  /** `unknown`: it was asked to end, and no answer came. */
  connection: 'made' | 'ended' | 'unknown';
  session: Session | undefined;
  /** Cookies of sessions that were ended with an answer that said so. */
  endedSessions: string[];
  /** How often they were rightly told that an answer of the provider was lost. */
  losses: number;
}

interface Session {
  cookie: string;
  csrfToken: string;
}

/** Longer than any deadline of Gatehouse's and any pause that a campaign imposes, together. */
const PATIENCE_MILLISECONDS = 60_000;
/** Milliseconds until somebody who could not sign in tries again. */
const DISCOURAGED = [200, 1_500] as const;
const BEAT_MILLISECONDS = 50;
const NOTABLE_PAUSE_MILLISECONDS = 500;
/** What may come of a call while something is broken: refusals that say so and pass. */
const PASSING = [429, 502, 503, 504];
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
  /** Lets everybody do what they do, until `stop`. */
  start(): void;
  stop(): Promise<void>;
  /**
   * Looks whether this person still has all that was promised, once all is well again; whoever left comes back then.
   * @returns whether they are signed in again: a pause after the last fault may still refuse that
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
  let going = false;
  let lives: Promise<void>[] = [];
  const all = parts.names.map(
    (name): CampaignPerson => ({
      ...{ name, userId: site.userIdOf(name), connection: 'ended', session: undefined },
      ...{ endedSessions: [], losses: 0 },
    }),
  );

  /** An answer, judged by its status alone; undefined where none came. */
  async function tell(what: string, path: string, question: Question, good: number[]): Promise<Asked | undefined> {
    const since = performance.now();
    const late = sleep(PATIENCE_MILLISECONDS, undefined, { ref: false });
    const answer = await Promise.race([ask(url + path, question).catch((error: Error) => error), late]);
    if (answer === undefined || answer instanceof Error) {
      journal.note(what, 'cut');
      if (!answer) journal.wrong(`${what}: no answer within ${PATIENCE_MILLISECONDS / 1_000} s`);
      else if (!journal.isExcused(what, since)) journal.wrong(`${what}: cut while nothing broke (${answer.message})`);
      return undefined;
    }
    const isGood = good.includes(answer.status);
    journal.note(what, isGood ? 'served' : 'refused');
    if (!isGood && !PASSING.includes(answer.status)) {
      const [took, paused] = [performance.now() - since, pauses.longest(since)].map(Math.round);
      const when = `after ${took} ms (longest pause of the campaign itself: ${paused} ms)`;
      journal.wrong(`${what}: ${answer.status} ${codeOf(answer)} ${when}`);
    }
    return answer;
  }

  const asThem = ({ session }: CampaignPerson) => ({ ...DATA, cookie: session?.cookie ?? '' });
  const post = (what: string, path: string, person: CampaignPerson, good: number[]) =>
    tell(
      what,
      path,
      {
        method: 'POST',
        headers: { ...asThem(person), ...FORM },
        body: new URLSearchParams({ _csrf: person.session?.csrfToken ?? '' }).toString(),
      },
      good,
    );

  /** In a browser that knows nothing yet. */
  async function signIn(person: CampaignPerson): Promise<void> {
    const cookies = createCookieJar();
    const begun = await tell('sign-in', '/sign-in', { headers: PAGE }, [303]);
    const location = begun?.headers.location;
    if (begun?.status !== 303 || location === undefined) return void (await sleep(chance.between(...DISCOURAGED)));
    cookies.store(url, begun.headers['set-cookie'] ?? []);
    const callback = new URL(site.provider.authorize(location, person.name));
    if (person.connection === 'ended') person.connection = 'unknown';
    const headers = { ...PAGE, cookie: cookies.header(url) };
    const answer = await tell('callback', callback.pathname + callback.search, { headers }, [303]);
    if (answer?.status !== 303) return void (await sleep(chance.between(...DISCOURAGED)));
    cookies.store(url, answer.headers['set-cookie'] ?? []);
    person.session = { cookie: cookies.header(url), csrfToken: '' };
    person.connection = 'made';
    await look(person);
  }

  /** Whoever is signed in is, and is themselves. */
  async function look(person: CampaignPerson): Promise<void> {
    const answer = await tell('session', '/session', { headers: asThem(person) }, [200]);
    if (answer?.status !== 200 || !person.session) return;
    const { signedIn, user, csrfToken } = JSON.parse(answer.body);
    if (!signedIn) {
      journal.wrong(`session: an acknowledged sign-in of ${person.name} is gone`);
      person.session = undefined;
    } else {
      if (user.id !== person.userId) journal.wrong(`session: ${person.name} is taken for ${user.subject}`);
      person.session.csrfToken = csrfToken;
    }
  }

  async function thread(person: CampaignPerson, more: Question = {}): Promise<void> {
    const answer = await tell('thread', '/threads/current', { headers: asThem(person), ...more }, [200, 403]);
    if (answer) await judgeThread(person, answer);
  }

  /** F22: gone before the answer is there; a refresh that it began goes on without them. */
  async function hangUp({ session }: CampaignPerson): Promise<void> {
    const head = ['GET /threads/current HTTP/1.1', `Host: ${new URL(url).host}`, `Cookie: ${session?.cookie}`];
    await sendRaw(url, `${head.join('\r\n')}\r\n\r\n`, chance.between(1, 30));
  }

  async function judgeThread(person: CampaignPerson, answer: Asked): Promise<void> {
    if (answer.status === 200) {
      judgeOwner('thread', person.userId, answer);
      if (person.connection === 'ended') journal.wrong(`thread: ${person.name} had disconnected`);
    }
    if (answer.status !== 403) return;
    const code = codeOf(answer);
    if (code === 'reconnect_needed') await judgeLoss(person);
    else if (code !== 'not_connected') journal.wrong(`thread: 403 ${code}`);
    else if (person.connection === 'made') journal.wrong(`thread: the connection of ${person.name} is gone`);
    if (code === 'reconnect_needed') await signIn(person);
  }

  function judgeOwner(what: string, userId: string, { body }: Asked): void {
    const { owner } = JSON.parse(body) as { owner?: string };
    if (owner !== userId) journal.wrong(`${what}: the thread of ${owner} was shown to ${userId}`);
  }

  /** Rightly told only where the provider takes the token no more. */
  async function judgeLoss(person: CampaignPerson): Promise<void> {
    person.losses += 1;
    // The storage may be the one that is broken just now.
    const stored = await site.vault.grants.loadStored(person.userId, 'platform').catch(() => undefined);
    if (!stored || 'unreadable' in stored || stored.grant.failure?.kind !== 'reconnect_needed') return;
    if (site.provider.takes(stored.grant.refreshToken))
      journal.wrong(`thread: ${person.name} is told to reconnect (${stored.grant.failure.cause}) for nothing`);
  }

  async function disconnect(person: CampaignPerson): Promise<void> {
    const answer = await post('disconnect', '/connections/platform/disconnect', person, [200]);
    person.connection = answer?.status === 200 ? 'ended' : 'unknown';
    if (person.connection === 'ended') await thread(person);
  }

  async function signOut(person: CampaignPerson): Promise<void> {
    const { session } = person;
    const answer = await post('sign-out', '/sign-out', person, [303]);
    person.session = undefined;
    if (answer?.status === 303 && session) person.endedSessions.push(session.cookie);
    await signIn(person);
  }

  async function bin(person: CampaignPerson | undefined): Promise<void> {
    const digits = `4571${String(chance.below(10_000)).padStart(4, '0')}`;
    const what = person ? 'BIN' : 'relayed BIN';
    const [path, headers] = person
      ? [`/bin/${digits}`, asThem(person)]
      : [`/relay/bin/${digits}`, { ...DATA, authorization: `Bearer ${site.relayToken}` }];
    const answer = await tell(what, path, { headers }, [200, 404]);
    // Told from local sources where the service cannot be asked.
    if (answer?.status !== 200 || answer.headers['gatehouse-source'] === 'dataset') return;
    const { bank } = JSON.parse(answer.body) as { bank?: { name?: string } };
    if (/service|cache/.test(String(answer.headers['gatehouse-source'])) && bank?.name !== bankOf(digits))
      journal.wrong(`${what}: ${digits} is said to be of ${bank?.name}`);
  }

  /** What the services behind Gatehouse do, for anybody. */
  async function service(): Promise<void> {
    if (chance.fraction() < 0.3) return bin(undefined);
    const { userId, name, session, endedSessions } = chance.pick(all);
    const isKnown = session !== undefined || endedSessions.length > 0;
    const headers = { ...DATA, authorization: `Bearer ${site.relayToken}`, 'gatehouse-user': userId };
    const answer = await tell('relayed thread', '/relay/threads/current', { headers }, [200, 403, 404]);
    if (answer?.status === 404 && isKnown) journal.wrong(`relayed thread: ${name} is no longer known`);
    if (answer?.status === 200) judgeOwner('relayed thread', userId, answer);
    if (answer?.status === 403 && !/not_connected|reconnect_needed/.test(codeOf(answer)))
      journal.wrong(`relayed thread: 403 ${codeOf(answer)}`);
  }

  async function act(person: CampaignPerson): Promise<void> {
    if (!person.session?.csrfToken) return person.session ? look(person) : signIn(person);
    const drawn = chance.fraction();
    if (person.connection === 'unknown') return signIn(person);
    // For a while they find again and again that they have disconnected.
    if (person.connection === 'ended') return drawn < 0.8 ? thread(person) : signIn(person);
    if (isAdministrator(person.name) && drawn < 0.6) {
      const path = `/admin${chance.pick(ADMIN_PATHS)}`;
      return void (await tell('admin page', path, { headers: { ...asThem(person), ...PAGE } }, [200]));
    }
    if (drawn < 0.5) return thread(person);
    if (drawn < 0.57) return void (await Promise.all([thread(person), thread(person), look(person)]));
    if (drawn < 0.6) return hangUp(person);
    if (drawn < 0.75) return bin(person);
    if (drawn < 0.83) return look(person);
    if (drawn < 0.9)
      return void (await tell(
        'page',
        chance.pick(['/', '/connections']),
        { headers: { ...asThem(person), ...PAGE } },
        [200],
      ));
    if (drawn < 0.94) return signIn(person);
    return drawn < 0.97 ? disconnect(person) : signOut(person);
  }

  async function live(work: () => Promise<void>): Promise<void> {
    await sleep(chance.between(0, 500));
    while (going) {
      await work();
      await sleep(chance.between(20, 200));
    }
  }

  return {
    all,
    start() {
      going = true;
      lives = [...all.map((person) => live(() => act(person))), live(service), live(service)];
    },
    async stop() {
      going = false;
      await Promise.all(lives);
    },
    async settle(person) {
      await look(person);
      if (person.session) await thread(person);
      if (!person.session || person.connection !== 'made') await signIn(person);
      if (!person.session) return false;
      await thread(person);
      for (const cookie of person.endedSessions) {
        const answer = await tell('ended session', '/threads/current', { headers: { ...DATA, cookie } }, [401]);
        if (answer?.status === 200) journal.wrong(`a session that ${person.name} had ended came back`);
      }
      return true;
    },
    close: pauses.stop,
  };
}

function codeOf({ body }: Asked): string {
  try {
    return String((JSON.parse(body) as { code?: unknown }).code);
  } catch {
    return body.slice(0, 100);
  }
}

/** The balancer and the provider live in this process as well: while it stands still, nothing of anybody is sent on. */
function watchPauses() {
  const pauses: { until: number; milliseconds: number }[] = [];
  let last = performance.now();
  const beats = setInterval(() => {
    const [now, before] = [performance.now(), last];
    last = now;
    if (now - before > NOTABLE_PAUSE_MILLISECONDS) pauses.push({ until: now, milliseconds: now - before });
  }, BEAT_MILLISECONDS);
  return {
    /** In milliseconds, of those that had not ended then, with the one that lasts until now. */
    longest: (since: number) =>
      Math.max(
        performance.now() - last,
        ...pauses.filter(({ until }) => until > since).map(({ milliseconds }) => milliseconds),
      ),
    stop: () => clearInterval(beats),
  };
}
