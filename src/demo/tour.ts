/** The tour: a page of fault switches, which shows the events after the press of each switch. */
import { setTimeout as sleep } from 'node:timers/promises';
import express, { type Request, type Response } from 'express';
import { userIdOf } from '../gatehouse/users/user-id.ts';
import { createPages } from '../sandbox/pages.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Access } from '../sandbox/switches.ts';
import type { DemoApp, DemoApps } from './apps.ts';
import {
  createFaultSwitches,
  type FaultSwitches,
  isSwitch,
  RELEASE,
  SWITCHES,
  type SwitchName,
} from './fault-switches.ts';
import { DEMO_THREAD } from './people.ts';
import { type Interval, type Line, linesOfAudit, linesOfRequests } from './tour-lines.ts';

interface OpenedTour {
  sandbox: Sandbox;
  publicUrl: string;
  /** The URL at which the tour calls Gatehouse, because a front end may not be running. */
  localUrl: string;
  apps: DemoApps;
  /** The user that the commands on the page name. */
  userId: string;
  relayToken: string;
  /** An admin token with the scope `read`. */
  adminToken: string;
}

/** A switch that was pressed, and the login of the user whose connection shows its effect. */
interface Press {
  name: SwitchName;
  at: number;
  user: string;
}

interface RunningTour {
  publicUrl: string;
  /** The data for the commands on the page. */
  more: { publicUrl: string; relayToken: string; userId: string; app: DemoApp; staff: DemoApp; threadPath: string };
  switches: FaultSwitches;
  accessOf(login: string): Access;
  /** The login of the user who shows the effect of a switch. */
  userOf(name: SwitchName): string;
  /** Reads the user's thread as a back-end service would. Returns a line about the request and the response. */
  call(login: string): Promise<string>;
  /** Makes Gatehouse get a valid access token, and waits until the token is old enough to be refreshed. */
  warmUp(login: string): Promise<void>;
  /** Returns the events from the press to `until`, in order. @param tour the lines and the calls of the tour */
  linesSince(
    press: Press,
    until: number,
    tour: { lines: readonly Line[]; calls: readonly Interval[] },
  ): Promise<Line[]>;
}

export const TOUR_PATH = '/tour';
const MAX_LINES = 9;
const MAX_STORED = 200;
/** Gatehouse does not refresh an access token that is younger than two seconds. */
const JUST_REFRESHED_MS = 3_000;
const CONNECT_POLICY = "connect-src 'self'";

export function createTour() {
  const pages = createPages();
  const tourLines: Line[] = [];
  const calls: Interval[] = [];
  const say = (source: string, text: string) => {
    tourLines.push({ at: Date.now(), source, text });
    tourLines.splice(0, tourLines.length - MAX_STORED);
  };
  const receivers = createReceivers((receiver, event, status) => say(`Webhook to ${receiver}`, `${event}: ${status}`));
  const opened = Promise.withResolvers<RunningTour>();
  let presses: readonly Press[] = [];

  const viewOf = async () => {
    const tour = await opened.promise;
    const switches = Object.entries(SWITCHES).map(async ([id, texts]) => {
      const index = presses.findIndex(({ name }) => name === id);
      const press = presses[index];
      const until = presses[index + 1]?.at ?? Number.POSITIVE_INFINITY;
      const label = id === 'outage' && tour.switches.isDown() ? RELEASE : texts.press;
      const lines = press && (await tour.linesSince(press, until, { lines: tourLines, calls }));
      return { id, ...texts, label, press, lines };
    });
    const { publicUrl, more } = tour;
    return {
      title: 'Make things fail',
      wide: true,
      publicUrl,
      more,
      switches: await Promise.all(switches),
    };
  };

  const act = async (req: Request, res: Response) => {
    // A page of another site could send the form, too.
    if (req.get('origin') !== `${req.protocol}://${req.get('host')}`) return void res.status(403).end();
    const name = String(req.params.name);
    if (!isSwitch(name)) return void res.status(404).end();
    const tour = await opened.promise;
    const latest = presses.at(-1);
    const isRepeat = req.params.again !== undefined;
    const isRelease = name === 'outage' && !isRepeat && tour.switches.isDown();
    const user = tour.userOf(name);
    const sayProvider = (text: string) => say('Provider', text);
    const isContinued = (isRepeat || isRelease) && latest?.name === name;
    // The effect of one switch would hide that of the next.
    if (!isRepeat) tour.switches.restore(sayProvider);
    if (!isContinued && !isRelease) await tour.warmUp(user);
    const press = isContinued ? latest : { name, at: Date.now(), user };
    presses = [...presses.filter((earlierPress) => earlierPress.name !== name), press];
    const work = async () => {
      if (!isRepeat && !isRelease) await tour.switches.press(name, tour.accessOf(press.user), sayProvider);
      const from = Date.now();
      say('Caller', await tour.call(press.user));
      calls.push({ from, to: Date.now() });
      calls.splice(0, calls.length - MAX_STORED);
    };
    // A rotation of keys takes longer than a response may take.
    if (name === 'keys') void work().catch(() => undefined);
    else await work();
    res.redirect(303, `${TOUR_PATH}#${name}`);
  };

  const show = (template: string) => async (_req: Request, res: Response) => {
    const policy = `${pages.headers['Content-Security-Policy']}; ${CONNECT_POLICY}`;
    // Under `no-referrer`, forms are sent with `Origin: null`.
    const tourHeaders = { 'Content-Security-Policy': policy, 'Referrer-Policy': 'same-origin' };
    res.set({ ...pages.headers, ...tourHeaders }).send(pages.render(template, await viewOf()));
  };
  const router = express().disable('x-powered-by');
  router.get('/', show('tour'));
  router.get('/switches', show('tour-switches'));
  router.use('/hooks', receivers.router);
  router.post('/:name{/:again}', act);
  return {
    /** Handles requests. Those for the page wait until the tour is open. */
    listener: router,
    /** Returns the URLs of the webhook receivers. @param origin the origin of the sandbox's identity provider */
    receivers: (origin: string) => receivers.urls(`${origin}${TOUR_PATH}/hooks`),
    open: (parts: OpenedTour) => opened.resolve(openTour(parts)),
  };
}

function openTour(parts: OpenedTour): RunningTour {
  const { sandbox, publicUrl, localUrl, apps, userId, relayToken, adminToken } = parts;
  const app = apps.platform;
  const accessOf = (login: string) => ({ login, clientId: app.clientId });
  const idOf = (login: string) =>
    userIdOf(sandbox.issuer, sandbox.accounts.find((account) => account.login === login)?.id ?? '');
  return {
    publicUrl,
    more: { publicUrl, relayToken, userId, app, staff: apps.staff, threadPath: `/1/threads/${DEMO_THREAD}` },
    switches: createFaultSwitches(sandbox),
    accessOf,
    userOf(name) {
      const logins = SWITCHES[name].users.map((user) => `${user}@example.test`);
      return logins.find((login) => sandbox.switches.isAllowed(accessOf(login))) ?? logins[0] ?? '';
    },

    async call(login) {
      const headers = { authorization: `Bearer ${relayToken}`, 'gatehouse-user': idOf(login) };
      const response = await fetch(`${localUrl}/relay/threads/current?app=${app.id}`, { headers });
      const { code = '' } = (await response.json().catch(() => ({}))) as { code?: string };
      return `GET /relay/threads/current: ${response.status} ${code}`.trim();
    },

    async warmUp(login) {
      await this.call(login);
      const refreshedAt =
        sandbox.requests.latest('identity-provider').findLast(({ path }) => path === '/token')?.atMs ?? 0;
      await sleep(Math.max(0, refreshedAt + JUST_REFRESHED_MS - Date.now()), undefined, { ref: false });
    },

    async linesSince({ name, at, user }, until, tour) {
      const query = new URLSearchParams({ target: idOf(user), from: new Date(at).toISOString(), limit: '50' });
      const headers = { authorization: `Bearer ${adminToken}` };
      const response = await fetch(`${localUrl}/admin/api/audit?${query}`, { headers });
      const audit = response.ok ? linesOfAudit(((await response.json()) as { items: never[] }).items) : [];
      const lines = [
        ...tour.lines,
        ...linesOfRequests(sandbox.requests.latest(), tour.calls, name === 'keys'),
        ...audit,
      ]
        .filter((line) => line.at >= at && line.at < until)
        .sort((a, b) => a.at - b.at);
      // The first lines show the effect of the switch, and the last lines the current state.
      return lines.length > 2 * MAX_LINES ? [...lines.slice(0, MAX_LINES), ...lines.slice(-MAX_LINES)] : lines;
    },
  };
}

const RECEIVERS = { crm: 204, billing: 503 };

/**
 * Creates two receivers of webhook messages: one that accepts them, and one that is unavailable.
 * @param onMessage called for each message, with the status of the response
 */
function createReceivers(onMessage: (receiver: string, event: string, status: number) => void) {
  const router = express.Router();
  for (const [receiver, status] of Object.entries(RECEIVERS)) {
    router.post(`/${receiver}`, express.json({ limit: '64kb' }), (req, res) => {
      onMessage(receiver, String((req.body as { type?: unknown } | undefined)?.type ?? ''), status);
      res.status(status).end();
    });
  }
  return {
    router,
    /** @param base the URL of the router */
    urls: (base: string) => ({ working: `${base}/crm`, failing: `${base}/billing` }),
  };
}
