/** The three listeners of the sandbox, opened together or not at all. */
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, isIPv6 } from 'node:net';
import { codeOf, StartRefused } from '../shared/errors.ts';

const LISTENER_NAMES = ['identity-provider', 'platform', 'bin-lookup-service'] as const;
export type ListenerName = (typeof LISTENER_NAMES)[number];

export interface Listeners {
  /** The origin of each listener, such as `http://127.0.0.1:3001`. */
  readonly urls: Readonly<Record<ListenerName, string>>;
  /** The URL at which the sandbox itself reaches the identity provider. */
  readonly innerIssuer: string;
  /** Starts to handle requests, beginning with those that arrived since the ports opened. */
  serve(handlers: Readonly<Record<ListenerName, RequestListener>>): void;
  close(): Promise<void>;
}

export interface Address {
  host: string;
  /** The first of three consecutive ports, or 0 for any three free ports. */
  port: number;
  beyondLoopback?: boolean | undefined;
  /** The host in URLs; default: `host`. */
  publicHost?: string | undefined;
}

/** @throws StartRefused with a sentence that says what to do */
export async function openListeners({ host, port, beyondLoopback = false, publicHost }: Address): Promise<Listeners> {
  if (!beyondLoopback) assertLoopback(host);
  if (isWildcard(host) && publicHost === undefined) {
    throw new StartRefused([
      `"${host}" cannot be used in URLs: set --public-host to the host at which others reach the sandbox.`,
    ]);
  }
  const servers = new Map<ListenerName, Server>();
  const handling = Promise.withResolvers<Readonly<Record<ListenerName, RequestListener>>>();
  const close = async () => void (await Promise.all([...servers.values()].map(closeServer)));
  try {
    const failures: { port: number; code: string }[] = [];
    for (const [index, name] of LISTENER_NAMES.entries()) {
      // A request that arrives during the start waits for `serve`.
      const server = createServer((req, res) => void handling.promise.then((handlers) => handlers[name](req, res)));
      const listenerPort = port === 0 ? 0 : port + index;
      const code = await listen(server, host, listenerPort);
      if (code === undefined) servers.set(name, server);
      else failures.push({ port: listenerPort, code });
    }
    if (failures.length > 0) throw new StartRefused([reasonOf(failures)]);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    urls: Object.fromEntries(
      [...servers].map(([name, server]) => [name, originOf(publicHost ?? host, server)]),
    ) as Listeners['urls'],
    innerIssuer: `http://${hostInUrl(isWildcard(host) ? '127.0.0.1' : host)}:${portOf(servers.get('identity-provider'))}`,
    serve: handling.resolve,
    close,
  };
}

/** Refuses other hosts: the sandbox has known passwords and shows codes, so that every client can use it. */
function assertLoopback(host: string): void {
  if (isLoopback(host)) return;
  throw new StartRefused([
    `The sandbox listens only on loopback (127.0.0.1, ::1 or localhost), not on "${host}". To allow it, add ` +
      '--beyond-loopback (SANDBOX_BEYOND_LOOPBACK=yes), but only where every client that can reach it may use it.',
  ]);
}

export function isLoopback(host: string): boolean {
  return /^127(\.\d{1,3}){3}$/.test(host) || host === '::1' || host === 'localhost';
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::';
}

/** @returns the error code if the port cannot be opened */
function listen(server: Server, host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    server.once('error', (error) => resolve(codeOf(error) ?? 'unknown failure'));
    server.listen(port, host, () => {
      server.removeAllListeners('error');
      resolve(undefined);
    });
  });
}

function reasonOf(failures: readonly { port: number; code: string }[]): string {
  const usedPorts = failures.filter(({ code }) => code === 'EADDRINUSE').map(({ port }) => `Port ${port} is in use.`);
  const otherFailure = failures.find(({ code }) => code !== 'EADDRINUSE');
  if (otherFailure) return `The sandbox cannot listen on port ${otherFailure.port}: ${otherFailure.code}`;
  return [
    ...usedPorts,
    'The sandbox needs three consecutive ports: set the first of three free ports',
    '(SANDBOX_PORT, or --port of npm run sandbox).',
  ].join(' ');
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
