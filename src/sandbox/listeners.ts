/** Owns the sandbox's three sockets: on loopback only, opened together or not at all, closed with whatever hangs on them. */
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, isIPv6 } from 'node:net';

export const LISTENER_NAMES = ['identity-provider', 'platform', 'bin-service'] as const;
export type ListenerName = (typeof LISTENER_NAMES)[number];

export interface Listeners {
  /** Origin of each, such as `http://127.0.0.1:3001`. */
  readonly urls: Readonly<Record<ListenerName, string>>;
  /** Requests are answered from here on. */
  serve(handlers: Readonly<Record<ListenerName, RequestListener>>): void;
  close(): Promise<void>;
}

/** Listens on `port` and the two after it, or with 0 on any three. Rejects with a sentence that says what to do. */
export async function openListeners({ host, port }: { host: string; port: number }): Promise<Listeners> {
  assertLoopback(host);
  const servers = new Map<ListenerName, Server>();
  const close = async () => void (await Promise.all([...servers.values()].map(closeServer)));
  try {
    for (const [index, name] of LISTENER_NAMES.entries()) {
      const server = createServer();
      await listen(server, host, port === 0 ? 0 : port + index);
      servers.set(name, server);
    }
  } catch (error) {
    await close();
    throw error;
  }
  return {
    urls: Object.fromEntries([...servers].map(([name, server]) => [name, originOf(host, server)])) as Listeners['urls'],
    serve(handlers) {
      for (const [name, server] of servers) server.on('request', handlers[name]);
    },
    close,
  };
}

/** Everything in the sandbox is open to whoever reaches it: known passwords, no limits. */
function assertLoopback(host: string): void {
  if (/^127(\.\d{1,3}){3}$/.test(host) || host === '::1' || host === 'localhost') return;
  throw new Error(`The sandbox listens on loopback only (127.0.0.1, ::1 or localhost), not on "${host}".`);
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => reject(new Error(reasonOf(cause, port), { cause })));
    server.listen(port, host, () => {
      server.removeAllListeners('error');
      resolve();
    });
  });
}

function reasonOf(cause: NodeJS.ErrnoException, port: number): string {
  if (cause.code === 'EADDRINUSE') {
    return `Port ${port} is taken. The sandbox needs three ports in a row: set SANDBOX_PORT to the first of three free ones.`;
  }
  return `The sandbox cannot listen on port ${port}: ${cause.message}`;
}

function originOf(host: string, server: Server): string {
  const { port } = server.address() as AddressInfo;
  return `http://${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
