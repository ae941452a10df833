/** Owns the ports: taken before anything else is opened, and given back without cutting off what is in flight. */
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Config } from './config.ts';
import { codeOf, StartRefused } from './start-refused.ts';

/** A server that has its port, and answers 503 until there is something behind it. */
export interface Door {
  server: Server;
  open(listener: RequestListener): void;
}

/** @throws StartRefused with what is wrong with either port; then neither is held */
export async function takePorts({ listen, management }: Config): Promise<[Door, Door]> {
  const [main, managing] = await Promise.allSettled([
    takePort(listen, { host: 'HOST', port: 'PORT' }),
    takePort(management, { host: 'MANAGEMENT_HOST', port: 'MANAGEMENT_PORT' }),
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

function takePort(at: { host: string; port: number }, settings: { host: string; port: string }): Promise<Door> {
  let answer: RequestListener = notYet;
  const server = createServer(
    { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 65_000, connectionsCheckingInterval: 5_000 },
    (req, res) => answer(req, res),
  );
  const open = (listener: RequestListener) => {
    answer = listener;
  };
  return new Promise((resolve, reject) => {
    const refuse = (error: Error) => reject(new StartRefused([portFault(error, at, settings)], { cause: error }));
    // It stays: a connection that cannot be taken later, for want of descriptors, ends no process.
    server.on('error', refuse);
    server.listen(at.port, at.host, () => resolve({ server, open }));
  });
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

/** What is in flight may end within the grace; a kept connection ends as soon as its answer is out. */
export async function closeServer(server: Server, graceSeconds: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.prependListener('request', (_req, res) => res.setHeader('Connection', 'close'));
  const idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MILLISECONDS);
  const cut = setTimeout(() => server.closeAllConnections(), graceSeconds * 1000);
  await closed;
  clearInterval(idle);
  clearTimeout(cut);
}
