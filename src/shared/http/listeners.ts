/** Binds the ports before anything else is opened, and closes them without cutting off requests in flight. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { Server as NetServer } from 'node:net';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import { codeOf, StartRefused } from '../errors.ts';
import { readinessBody, readinessType } from '../observability/health.ts';
import { capIdleConnections } from './idle-connections.ts';
import { createLimitedServer, LISTENER_LIMITS } from './limits.ts';
import { createRefuse, type RefusalPage } from './refusal.ts';
import { securityHeaders } from './security-headers.ts';

/**
 * A listening server. Until `open`, the main port holds requests for up to 3 s, then sends 503; the management port
 * sends 503 at once.
 */
export interface BoundServer {
  server: Server;
  open(listener: RequestListener): void;
}

/**
 * Binds both ports or none.
 * @param page the page for a browser that comes while the program starts
 * @throws StartRefused with the faults of both ports
 */
export async function bindPorts(
  {
    listen,
    management,
    publicUrl,
    trustedProxies,
  }: Pick<Config, 'listen' | 'management' | 'publicUrl' | 'trustedProxies'>,
  page: RefusalPage,
): Promise<[BoundServer, BoundServer]> {
  const refuse = createRefuse({ publicHref: publicUrl.href, page });
  const refuseStarting: RequestListener = ({ method, headers: { accept } }, res) => {
    const { headers, body } = refuse({ code: 'starting', status: 503, method, accept });
    res.writeHead(503, { 'Retry-After': '1', ...headers });
    res.end(body);
  };
  const commonHeaders = Object.fromEntries(securityHeaders(publicUrl.href));
  const reportStarting: RequestListener = (_req, res) => {
    res.writeHead(503, { ...commonHeaders, 'Retry-After': '1', 'Content-Type': readinessType, Connection: 'close' });
    res.end(readinessBody({ reason: 'starting' }));
  };
  const [mainResult, managementResult] = await Promise.allSettled([
    bindPort(listen, { host: 'HOST', port: 'PORT' }, createStartupQueue(refuseStarting)),
    // A health check must not wait.
    bindPort(
      management,
      { host: 'MANAGEMENT_HOST', port: 'MANAGEMENT_PORT' },
      { add: reportStarting, release: () => undefined },
    ),
  ]);
  if (mainResult.status === 'fulfilled' && managementResult.status === 'fulfilled') {
    const boundServers: [BoundServer, BoundServer] = [mainResult.value, managementResult.value];
    for (const { server } of boundServers)
      capIdleConnections(server, { max: LISTENER_LIMITS.idlePerAddress, trustedProxies });
    return boundServers;
  }
  const reasons: unknown[] = [];
  for (const result of [mainResult, managementResult]) {
    if (result.status === 'fulfilled') await closeServer(result.value.server, AT_ONCE);
    else reasons.push(result.reason);
  }
  const faults = reasons.flatMap((reason) => (reason instanceof StartRefused ? reason.faults : []));
  throw new StartRefused(faults, { cause: reasons[0] });
}

function bindPort(
  address: { host: string; port: number },
  settings: { host: string; port: string },
  queue: StartupQueue,
): Promise<BoundServer> {
  let current: RequestListener = queue.add;
  const server = createLimitedServer(LISTENER_LIMITS, (req, res) => current(req, res));
  const open = (listener: RequestListener) => {
    current = listener;
    queue.release(listener);
  };
  return new Promise((resolve, reject) => {
    const refuse = (error: Error) => reject(new StartRefused([portFault(error, address, settings)], { cause: error }));
    // The handler is not removed: a later error, such as EMFILE while accepting, must not end the process.
    server.on('error', refuse);
    server.listen(address.port, address.host, () => resolve({ server, open }));
  });
}

/**
 * A proxy sends requests as soon as the port is bound, and does not retry unsafe ones. They wait while the storage
 * opens, because refusing them would lose requests in a rolling replacement (R90).
 */
const MAX_OPENING_MS = 3_000;

interface StartupQueue {
  add: RequestListener;
  /** Passes the waiting requests to the listener. */
  release(listener: RequestListener): void;
}

function createStartupQueue(refuse: RequestListener): StartupQueue {
  const waitingRequests = new Map<ServerResponse, { req: IncomingMessage; timer: NodeJS.Timeout }>();
  return {
    add(req, res) {
      const refuseLate = () => {
        waitingRequests.delete(res);
        refuse(req, res);
      };
      waitingRequests.set(res, { req, timer: setTimeout(refuseLate, MAX_OPENING_MS) });
      res.once('close', () => {
        clearTimeout(waitingRequests.get(res)?.timer);
        waitingRequests.delete(res);
      });
    },
    release(listener) {
      for (const [res, { req, timer }] of waitingRequests) {
        clearTimeout(timer);
        listener(req, res);
      }
      waitingRequests.clear();
    },
  };
}

const HOST_ERRORS = new Set(['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN', 'EINVAL', 'EAFNOSUPPORT']);

function portFault(
  error: Error,
  { host, port }: { host: string; port: number },
  settings: { host: string; port: string },
): string {
  const code = codeOf(error) ?? '';
  if (HOST_ERRORS.has(code))
    return `${settings.host}: "${host}" is not an address of this machine. Choose another with ${settings.host}, such as 127.0.0.1.`;
  const address = `${host}:${port}`;
  const causes: Record<string, string> = {
    EADDRINUSE: `another program listens on ${address} already`,
    EACCES: `this user may not listen on ${address}`,
  };
  return `${settings.port}: ${causes[code] ?? `cannot listen on ${address}`}. Choose another with ${settings.port}.`;
}

const IDLE_CHECK_MS = 50;
/**
 * A proxy may send a request just as its connection is closed, and must not retry an unsafe one. So a connection ends
 * with its next response; only those unused for this long are closed as idle.
 */
const LAST_REQUEST_MS = 1_000;

export const AT_ONCE = { delaySeconds: 0, graceSeconds: 0 };

/**
 * Closes a server. The port stays open for the delay, so that load balancers notice that the process is not ready.
 * Requests in flight may then finish within the grace period. Each connection ends with its next response.
 */
export async function closeServer(
  server: Server,
  { delaySeconds, graceSeconds }: { delaySeconds: number; graceSeconds: number },
): Promise<void> {
  server.prependListener('request', (_req, res) => res.setHeader('Connection', 'close'));
  if (delaySeconds > 0) await sleep(delaySeconds * 1000);
  if (graceSeconds > 0) await drainAcceptQueue(server);
  // Closes only the port, so that new connections go to another process: `http.Server.close` would also end idle ones.
  const closing = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
  if (graceSeconds > 0) await Promise.race([closing, sleep(LAST_REQUEST_MS, undefined, { ref: false })]);
  // Timers run before the event loop reads sockets: a connection may look idle although its next request has arrived.
  const closeIdleAfterReading = async () => {
    for (let turn = 0; turn < 2; turn += 1) await setImmediate();
    server.closeIdleConnections();
  };
  const idleCheck = setInterval(() => void closeIdleAfterReading(), IDLE_CHECK_MS);
  const deadline = setTimeout(() => server.closeAllConnections(), graceSeconds * 1000);
  await closing;
  clearInterval(idleCheck);
  clearTimeout(deadline);
  // Stops the server's timer for slow peers.
  server.close();
}

const MAX_TURNS = 100;
const QUIET_MS = 0.5;

/**
 * Waits for a short turn of the event loop in which no connection arrives: closing a port resets those that the kernel
 * has established and this process has not accepted. The first turn does not count: it polled before the signal was
 * handled.
 */
async function drainAcceptQueue(server: Server): Promise<void> {
  let arrivals = 0;
  const count = () => {
    arrivals += 1;
  };
  server.on('connection', count);
  for (let turn = 0; turn < MAX_TURNS; turn += 1) {
    arrivals = 0;
    const startedAt = performance.now();
    await setImmediate();
    if (turn > 0 && arrivals === 0 && performance.now() - startedAt < QUIET_MS) break;
  }
  server.off('connection', count);
}
