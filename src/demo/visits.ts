/** Plans the sign-ins of the demo's history, some of which fail. */
import type { SessionData } from 'express-session';
import { newConnectionId } from '../gatehouse/grants/connection-ids.ts';
import type { AttemptLog } from '../gatehouse/sign-in-record/attempt-log.ts';
import type { SignInFacts, SignInFailure } from '../gatehouse/sign-in-record/failures.ts';
import { SignInError } from '../gatehouse/sign-in-record/sign-in-error.ts';
import { userIdOf } from '../gatehouse/users/user-id.ts';
import type { SessionUser } from '../shared/sessions/session.ts';
import { DAY_MS, HOUR_MS } from '../shared/time.ts';
import type { DemoApp } from './apps.ts';
import { ADMINISTRATOR, DISABLED, PEOPLE, type Person } from './people.ts';
import type { Scene } from './scene.ts';
import { isWeekend, startOfDay } from './timeline.ts';

/** The reference of a refused sign-in, which the terminal shows. */
export const REFUSED_REFERENCE = 'b7f3d02c';

/** `abandoned`: the user closed the page of the provider. */
type Outcome = 'signed_in' | 'abandoned' | { failure: SignInFailure; facts?: SignInFacts };

const OUTCOMES: readonly (readonly [Outcome, number])[] = [
  ['signed_in', 1_000],
  ['abandoned', 20],
  [{ failure: 'access_denied', facts: { oauthError: 'access_denied' } }, 22],
  [{ failure: 'state_expired' }, 20],
  [{ failure: 'cookie_missing', facts: { otherBrowser: true } }, 12],
  [{ failure: 'code_refused', facts: { status: 400, oauthError: 'invalid_grant' } }, 8],
];
const OUTAGE: Outcome = { failure: 'provider_unavailable', facts: { status: 503, reason: 'status' } };

/** Hours of the day (UTC) with the relative number of visits that begin in each. */
const HOURS: readonly (readonly [number, number])[] = [
  [6, 2],
  [7, 9],
  [8, 16],
  [9, 13],
  [10, 9],
  [11, 6],
  [12, 9],
  [13, 10],
  [14, 9],
  [15, 7],
  [16, 5],
  [17, 3],
  [19, 1],
  [21, 1],
];
const WEEKEND_SHARE = 0.12;
/** How long a session lasts. */
const SESSION_HOURS = 8;

/** The users whose connections the provider has ended, and how long ago. */
export const BROKEN: readonly { login: string; hoursAgo: number }[] = [
  { login: 'grace.adeyemi@example.test', hoursAgo: 44 },
  { login: 'liam.byrne@example.test', hoursAgo: 5 },
];

export function userOf(
  { sandbox }: Pick<Scene, 'sandbox'>,
  { login, name }: Pick<Person, 'login' | 'name'>,
): SessionUser {
  const subject = sandbox.accounts.find((account) => account.login === login)?.id ?? '';
  const id = userIdOf(sandbox.issuer, subject);
  return { id, issuer: sandbox.issuer, subject, name, email: login, admin: login === ADMINISTRATOR.login };
}

/** The times at which a person first and last connected an app. */
interface Connected {
  person: Person;
  app: DemoApp;
  first: number;
  last: number;
}

export interface PlannedVisits {
  /** The connections by person and app. */
  connected: ReadonlyMap<string, Connected>;
  /** Returns the id of the connection of a person to an app. */
  idOf(login: string, app: DemoApp): string;
}

/** Plans every visit. The connections are complete once the timeline has been played. */
export function planVisits(scene: Scene): PlannedVisits {
  const { modules, timeline, random, apps, now, outage } = scene;
  const connected = new Map<string, Connected>();
  const ids = new Map<string, string>();
  const idOf = (login: string, app: DemoApp): string => {
    const key = `${login} ${app.id}`;
    const id = ids.get(key) ?? newConnectionId();
    ids.set(key, id);
    return id;
  };

  const attempt = (person: Person, app: DemoApp, time: number, planned: Outcome, reference = random.hex(8)): void => {
    const at = Math.round(time);
    const user = userOf(scene, person);
    const purpose = app.signIn ? 'sign_in' : 'connect';
    const state = random.hex(32);
    const browserSecret = random.hex(32);
    const origin = { address: person.address, requestId: `${random.hex(24)}${reference}` };
    const client = { browser: person.browser, origin, browserSecret };
    const redirectUri = app.callbackUrl;
    const outcome = at > outage.from && at < outage.to ? OUTAGE : planned;

    timeline.at(at, () =>
      modules.signIns.runAndRecord(app.id, { ...client, reference }, async (log) => {
        log.passed('started', app.id);
        log.learn({ purpose, ...(purpose === 'connect' && { user }) });
        log.passed('sent', redirectUri);
        await modules.store.write(log.beginWrites({ state, startedAt: at, redirectUri }));
        modules.events.signInStarted({ app: app.id, purpose, userId: undefined });
      }),
    );
    if (outcome === 'abandoned') return;
    const minutesLate = outcome !== 'signed_in' && outcome.failure === 'state_expired' ? random.whole(11, 50) : 0;
    const callbackAt = at + minutesLate * 60_000 + random.whole(4_000, 40_000);
    const failure = outcome === 'signed_in' ? undefined : outcome;
    const finish = async (log: AttemptLog) => {
      log.passed('came_back');
      log.learn({ state, purpose, id: reference });
      if (failure?.failure === 'state_expired' || failure?.failure === 'cookie_missing') throw errorOf(failure);
      log.passedUpTo('cookie');
      log.passed('redirect_uri', redirectUri);
      if (failure && failure.failure !== 'not_permitted') throw errorOf(failure);
      log.passedUpTo('id_token_signature');
      log.learn({ user });
      log.passed('claims');
      if (failure) throw errorOf(failure);
      if (purpose === 'sign_in') {
        log.passed('permitted');
        await beginSession(user, person, app, callbackAt);
        log.passed('session');
        await modules.users.noteSignIn(user);
      }
      connect(person, app, user, origin);
      log.passed('connection');
      await log.succeeded(purpose === 'sign_in' ? 'signed_in' : 'connected', user.id);
    };
    const info = { ...client, reference: outcome === 'signed_in' ? random.hex(8) : reference };
    timeline.at(callbackAt, () => modules.signIns.runAndRecord(app.id, info, finish).catch(onlySignInError));
  };

  /** Stores the session only if it has not expired by now. */
  const beginSession = async (user: SessionUser, { browser, address }: Person, app: DemoApp, at: number) => {
    if (now - at > SESSION_HOURS * HOUR_MS) return;
    const id = random.hex(32);
    const data = { user, app: app.id, csrfToken: random.hex(32), browser, address };
    await modules.sessions.write(id, { ...data, providerSession: { issuedAt: at / 1_000 } } as SessionData);
    for (let use = at; use < now; use += random.whole(14, 26) * 60_000) {
      timeline.at(use, () => modules.sessions.read(id, { extend: true }));
    }
  };

  const connect = (person: Person, app: DemoApp, user: SessionUser, origin: { address: string; requestId: string }) => {
    const key = `${person.login} ${app.id}`;
    const at = timeline.clock();
    const previous = connected.get(key);
    connected.set(key, { person, app, first: previous?.first ?? at, last: at });
    if (previous) return;
    const connection = idOf(person.login, app);
    modules.events.connectionCreated({ userId: user.id, app: app.id, connection, scopes: app.scopes, origin });
  };

  const visitsOf = (person: Person, { app = apps.platform, until = now } = {}): void => {
    const firstDay = now - person.since * DAY_MS;
    for (let day = startOfDay(firstDay); day <= until; day += DAY_MS) {
      const isFirst = day === startOfDay(firstDay);
      const share = isWeekend(day) ? WEEKEND_SHARE : 1;
      const count = isFirst ? 1 : Math.round(person.visits * share + random.between(-0.5, 0.5));
      for (let visit = 0; visit < count; visit += 1) {
        const at = day + random.pick(HOURS) * HOUR_MS + random.whole(0, HOUR_MS - 1);
        if (at >= until) continue;
        const outcome = isFirst ? 'signed_in' : random.pick(OUTCOMES);
        attempt(person, app, at, outcome);
        // A user whose sign-in failed tries again.
        if (outcome !== 'signed_in') attempt(person, app, at + random.whole(50_000, 300_000), 'signed_in');
        if (isFirst && person.team) attempt(person, apps.team, at + random.whole(90_000, 600_000), 'signed_in');
      }
    }
  };

  for (const person of PEOPLE) visitsOf(person);
  visitsOf(ADMINISTRATOR, { app: apps.staff });
  visitsOf(DISABLED, { until: now - 6 * DAY_MS });
  for (const person of PEOPLE.slice(0, 7)) {
    attempt(person, apps.platform, random.between(outage.from, outage.to), OUTAGE);
  }
  const refusedAt = now - 2.2 * HOUR_MS;
  attempt(
    DISABLED,
    apps.platform,
    refusedAt,
    { failure: 'not_permitted', facts: { disabled: true } },
    REFUSED_REFERENCE,
  );
  for (const { login, hoursAgo } of BROKEN) {
    const userId = userOf(scene, { login, name: '' }).id;
    const facts = { userId, app: apps.platform.id, connection: idOf(login, apps.platform) };
    timeline.at(now - hoursAgo * HOUR_MS, () => {
      modules.events.refreshEnded({ ...facts, outcome: 'refused', reason: 'invalid_grant' });
      modules.events.reconnectNeeded({ ...facts, cause: 'grant_refused' });
    });
  }

  return { connected, idOf };
}

const errorOf = ({ failure, facts = {} }: { failure: SignInFailure; facts?: SignInFacts }) =>
  new SignInError(failure, { facts });

function onlySignInError(error: unknown): void {
  if (!(error instanceof SignInError)) throw error;
}
