/** Owns the sandbox's three sockets: on loopback unless told twice, opened together or not at all, closed with what hangs on them. */
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, isIPv6 } from 'node:net';

export const LISTENER_NAMES = ['identity-provider', 'platform', 'bin-service'] as const;
export type ListenerName = (typeof LISTENER_NAMES)[number];

export interface Listeners {
  /** Origin of each, such as `http://127.0.0.1:3001`. */
  readonly urls: Readonly<Record<ListenerName, string>>;
  /** The identity provider as the sandbox itself reaches it, whatever name others use. */
  readonly innerIssuer: string;
  /** Requests are answered from here on. */
  serve(handlers: Readonly<Record<ListenerName, RequestListener>>): void;
  close(): Promise<void>;
}

export interface Address {
  host: string;
  /** The first of three in a row, or 0 for any three. */
  port: number;
  beyondLoopback?: boolean;
  /** The host in URLs; default: `host`. */
  publicHost?: string;
}

/** Rejects with a sentence that says what to do. */
export async function openListeners({ host, port, beyondLoopback = false, publicHost }: Address): Promise<Listeners> {
  if (!beyondLoopback) assertLoopback(host);
  if (isWildcard(host) && publicHost === undefined) {
    throw new Error(`"${host}" is no host that a URL can name: say by --public-host how others reach the sandbox.`);
  }
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
    urls: Object.fromEntries(
      [...servers].map(([name, server]) => [name, originOf(publicHost ?? host, server)]),
    ) as Listeners['urls'],
    innerIssuer: `http://${hostInUrl(isWildcard(host) ? '127.0.0.1' : host)}:${portOf(servers.get('identity-provider'))}`,
    serve(handlers) {
      for (const [name, server] of servers) server.on('request', handlers[name]);
    },
    close,
  };
}

/** Everything in the sandbox is open to whoever reaches it: known passwords, codes on the first page. */
function assertLoopback(host: string): void {
  if (/^127(\.\d{1,3}){3}$/.test(host) || host === '::1' || host === 'localhost') return;
  throw new Error(
    `The sandbox listens on loopback only (127.0.0.1, ::1 or localhost), not on "${host}", unless it is told twice: ` +
      'give --beyond-loopback (SANDBOX_BEYOND_LOOPBACK=yes) as well, where nobody reaches it who must not use it.',
  );
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::';
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
  return `http://${hostInUrl(host)}:${portOf(server)}`;
}

function hostInUrl(host: string): string {
  return isIPv6(host) ? `[${host}]` : host;
}

function portOf(server: Server | undefined): number {
  return (server?.address() as AddressInfo | undefined)?.port ?? 0;
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
