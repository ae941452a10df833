/** Owns the ports: taken before anything else is opened, and given back without cutting off what is in flight. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { Server as NetServer } from 'node:net';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import type { Config } from './config.ts';
import { createLimitedServer, LISTENER_LIMITS } from './http/limits.ts';
import { codeOf, StartRefused } from './start-refused.ts';

/** A server that has its port; what comes before there is something behind it waits for that a while, or is answered 503. */
export interface Door {
  server: Server;
  open(listener: RequestListener): void;
}

/** @throws StartRefused with what is wrong with either port; then neither is held */
export async function takePorts({ listen, management }: Pick<Config, 'listen' | 'management'>): Promise<[Door, Door]> {
  const [main, managing] = await Promise.allSettled([
    takePort(listen, { host: 'HOST', port: 'PORT' }, createWaitingRoom()),
    // Whoever watches is told at once.
    takePort(
      management,
      { host: 'MANAGEMENT_HOST', port: 'MANAGEMENT_PORT' },
      { enter: notYet, leave: () => undefined },
    ),
  ]);
  if (main.status === 'fulfilled' && managing.status === 'fulfilled') return [main.value, managing.value];
  const reasons: unknown[] = [];
  for (const taken of [main, managing]) {
    if (taken.status === 'fulfilled') await closeServer(taken.value.server, 0);
    else reasons.push(taken.reason);
  }
  const faults = reasons.flatMap((reason) => (reason instanceof StartRefused ? reason.faults : []));
  throw new StartRefused(faults, { cause: reasons[0] });
}

function takePort(
  at: { host: string; port: number },
  settings: { host: string; port: string },
  early: WaitingRoom,
): Promise<Door> {
  let answer: RequestListener = early.enter;
  const server = createLimitedServer(LISTENER_LIMITS, (req, res) => answer(req, res));
  const open = (listener: RequestListener) => {
    answer = listener;
    early.leave(listener);
  };
  return new Promise((resolve, reject) => {
    const refuse = (error: Error) => reject(new StartRefused([portFault(error, at, settings)], { cause: error }));
    // It stays: a connection that cannot be taken later, for want of descriptors, ends no process.
    server.on('error', refuse);
    server.listen(at.port, at.host, () => resolve({ server, open }));
  });
}

/**
 * A proxy sends requests from the moment that the port is there, and does not send those a second time that change something:
 * they are not refused for the short time that opening the storage takes, or a rolling replacement would lose them (R90).
 */
const OPENING_MILLISECONDS = 3_000;

interface WaitingRoom {
  enter: RequestListener;
  /** Whoever still waits is served. */
  leave(listener: RequestListener): void;
}

function createWaitingRoom(): WaitingRoom {
  const waiting = new Map<ServerResponse, { req: IncomingMessage; timer: NodeJS.Timeout }>();
  return {
    enter(req, res) {
      const giveUp = () => {
        waiting.delete(res);
        notYet(req, res);
      };
      waiting.set(res, { req, timer: setTimeout(giveUp, OPENING_MILLISECONDS) });
      res.once('close', () => {
        clearTimeout(waiting.get(res)?.timer);
        waiting.delete(res);
      });
    },
    leave(listener) {
      for (const [res, { req, timer }] of waiting) {
        clearTimeout(timer);
        listener(req, res);
      }
      waiting.clear();
    },
  };
}

const notYet: RequestListener = (_req, res) => {
  const headers = { 'Retry-After': '1', 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' };
  res.writeHead(503, { ...headers, 'Content-Type': 'text/plain; charset=utf-8', Connection: 'close' });
  res.end('starting\n');
};

const HOST_ERRORS = new Set(['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN', 'EINVAL', 'EAFNOSUPPORT']);

function portFault(
  error: Error,
  { host, port }: { host: string; port: number },
  settings: { host: string; port: string },
): string {
  const code = codeOf(error) ?? '';
  if (HOST_ERRORS.has(code))
    return `${settings.host}: "${host}" is no address of this machine. Choose another with ${settings.host}, such as 127.0.0.1.`;
  const where = `${host}:${port}`;
  const why: Record<string, string> = {
    EADDRINUSE: `another program listens on ${where} already`,
    EACCES: `this user may not listen on ${where}`,
  };
  return `${settings.port}: ${why[code] ?? `${where} cannot be listened on`}. Choose another with ${settings.port}.`;
}

const IDLE_CHECK_MILLISECONDS = 50;
/**
 * A proxy may be sending a request over a kept connection in the very moment in which it is ended, and then cannot send it again if it
 * changes something. So most of them end with an answer, and only those that are left unused for so long end by themselves.
 */
const LAST_CALL_MILLISECONDS = 1_000;

/** What is in flight may end within the grace; a kept connection ends as soon as its answer is out. */
export async function closeServer(server: Server, graceSeconds: number): Promise<void> {
  if (graceSeconds > 0) await quietTurn(server);
  // The port goes first: a proxy turns to another process then, and until then needs no new connections, because none was ended.
  // HTTP's own `close` would end those that are idle in the same moment.
  const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
  server.prependListener('request', (_req, res) => res.setHeader('Connection', 'close'));
  if (graceSeconds > 0) await Promise.race([closed, sleep(LAST_CALL_MILLISECONDS, undefined, { ref: false })]);
  // Timers come before what has arrived is read: a process that is late would take a connection for idle whose next request lies there.
  const afterReading = async () => {
    for (let turn = 0; turn < 2; turn += 1) await setImmediate();
    server.closeIdleConnections();
  };
  const idle = setInterval(() => void afterReading(), IDLE_CHECK_MILLISECONDS);
  const cut = setTimeout(() => server.closeAllConnections(), graceSeconds * 1000);
  await closed;
  clearInterval(idle);
  clearTimeout(cut);
  // Nothing is left but its check for slow peers.
  server.close();
}

const MOST_TURNS = 100;
const QUIET_MILLISECONDS = 0.5;

/**
 * Connections that the system has taken and this process has not would be reset with the port: a turn of the event loop in which
 * none came, and which was short, leaves the least room for them.
 */
async function quietTurn(server: Server): Promise<void> {
  let arrivals = 0;
  const count = () => {
    arrivals += 1;
  };
  server.on('connection', count);
  for (let turn = 0; turn < MOST_TURNS; turn += 1) {
    arrivals = 0;
    const since = performance.now();
    await setImmediate();
    if (arrivals === 0 && performance.now() - since < QUIET_MILLISECONDS) break;
  }
  server.off('connection', count);
}
