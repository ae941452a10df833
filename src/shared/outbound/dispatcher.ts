/** Pools of outgoing connections: direct ones, and tunnels through the operator's proxy where one is set. */
import type { LookupFunction, Socket } from 'node:net';
import { Agent, buildConnector, type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';
import { codeOf } from '../errors.ts';

/** The proxy for https calls (settings `HTTPS_PROXY`, `NO_PROXY`). */
export interface OutboundProxy {
  /** `http:` or `https:`, with user name and password where the proxy wants them. */
  url: string;
  /** Hosts that are called directly, comma-separated. A name includes its subdomains; `*` means all hosts. */
  bypass: string;
}

/** The proxy cannot be reached, or opened no tunnel to the host. */
export class ProxyFailure extends Error {
  readonly code: string;
  constructor(code: string, cause: Error) {
    super('The proxy opened no tunnel.', { cause });
    this.code = code;
  }
}

export interface Pools {
  /** Connections stay open for a while and carry further requests. For requests that may be sent again. */
  kept: Dispatcher;
  /** Each request has a new connection, so the server cannot have closed it as idle. */
  fresh: Dispatcher;
}

/** For connecting: name lookup, TCP, TLS and the tunnel. */
const CONNECT_TIMEOUT_MS = 5_000;

const OPTIONS: Agent.Options = {
  headersTimeout: 30_000,
  bodyTimeout: 30_000,
  // A pool ends with its last connection. Token responses can name many hosts, which may ask for a longer time.
  keepAliveTimeout: 4_000,
  keepAliveMaxTimeout: 10_000,
  maxHeaderSize: 32 * 1024,
};

interface Connecting {
  proxy: OutboundProxy | undefined;
  /** Refuses addresses of direct connections. */
  lookup: LookupFunction;
  /** For the name of the proxy. */
  proxyLookup: LookupFunction;
  /** The error where the address policy refuses a tunnel to this host. */
  judge: (hostname: string) => Promise<Error | undefined>;
}

/** @param parts `connections`: of each pool to one host */
export function createPools(parts: Connecting & { connections: number }): Pools {
  const { connections } = parts;
  return {
    kept: createDispatcher({ ...OPTIONS, connections, pipelining: 1 }, parts),
    // Without HTTP/2, whose connections are shared.
    fresh: createDispatcher({ ...OPTIONS, connections, pipelining: 0, allowH2: false }, parts),
  };
}

function createDispatcher(options: Agent.Options, { proxy, lookup, proxyLookup, judge }: Connecting): Dispatcher {
  const { allowH2 = true } = options;
  const timeout = CONNECT_TIMEOUT_MS;
  const directPool = (origin: string | URL, poolOptions: object) =>
    // One connector for each pool, since TLS sessions are resumed only within it.
    new Pool(origin, { ...poolOptions, connect: watched(buildConnector({ lookup, timeout, allowH2 })) });
  if (!proxy) return new Agent({ ...options, factory: directPool });
  return new EnvHttpProxyAgent({
    ...options,
    // Plain http calls go only to loopback hosts, which the proxy cannot reach.
    httpProxy: '',
    httpsProxy: proxy.url,
    noProxy: proxy.bypass,
    proxyTls: { lookup: proxyLookup } as buildConnector.BuildOptions,
    connectTimeout: timeout,
    clientFactory: (url, clientOptions) => {
      const { connect } = clientOptions as { connect: buildConnector.connector };
      // A proxy that does not respond to CONNECT occupies the connections to a host for no longer than a host that is away.
      return new Pool(url, { headersTimeout: timeout, connect: toProxy(connect) });
    },
    factory: (origin, poolOptions) => {
      // undici passes `connect` only for tunnels.
      const { connect } = poolOptions as { connect?: buildConnector.connector };
      if (!connect) return directPool(origin, poolOptions);
      return new Pool(origin, { ...poolOptions, connect: watched(judgedTunnel(connect, judge)) });
    },
  });
}

/** Checks the host before the proxy is asked for a tunnel, since the proxy resolves the name by itself. */
function judgedTunnel(
  connect: buildConnector.connector,
  judge: (hostname: string) => Promise<Error | undefined>,
): buildConnector.connector {
  return (options, callback) => {
    judge(options.hostname).then(
      (refusal) => (refusal ? callback(refusal, null) : connect(options, withProxyFailures(callback))),
      (error: unknown) =>
        callback(error instanceof Error ? error : new Error('The address policy could not check the host.'), null),
    );
  };
}

/** These come from the proxy: faults of the host itself show only later, in the TLS handshake. */
const PROXY_CODES =
  /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_\w+|NAME_TIMEOUT|UND_ERR_ABORTED|UND_ERR_PRX_\w+|UND_ERR_HEADERS_TIMEOUT)$/;

/** A failure to connect to the proxy is none of the host. */
function toProxy(connect: buildConnector.connector): buildConnector.connector {
  return (options, callback) =>
    connect(options, (...[error, socket]: Parameters<buildConnector.Callback>) =>
      error ? callback(new ProxyFailure(codeOf(error) ?? '', error), null) : callback(null, socket),
    );
}

function withProxyFailures(callback: buildConnector.Callback): buildConnector.Callback {
  return (error, socket) => {
    if (!error) return callback(null, socket);
    const code = codeOf(error) ?? '';
    callback(PROXY_CODES.test(code) && !(error instanceof ProxyFailure) ? new ProxyFailure(code, error) : error, null);
  };
}

/** Errors of connections on which a response had arrived before. */
const afterResponse = new WeakSet<Error>();

/** Notes which errors end a connection that has been used: undici does not say so. */
function watched(connect: buildConnector.connector): buildConnector.connector {
  const note = (socket: Socket) => {
    // Before undici's own listener, which passes the error on.
    socket.once('error', (error) => {
      if (socket.bytesRead > 0) afterResponse.add(error);
    });
  };
  return (options, callback) =>
    connect(options, (...[error, socket]: Parameters<buildConnector.Callback>) => {
      if (error) return callback(error, null);
      note(socket);
      callback(null, socket);
    });
}

/** The codes of a connection that the other side has closed: by FIN, by RST, or before a write. */
const CLOSED_CODES: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE', 'ECONNABORTED']);

/** True where the other side closed the connection. */
export const isClosed = (error: Error): boolean => CLOSED_CODES.has(codeOf(error) ?? '');

/** True where it had been used for an earlier response. */
export function wasUsed(error: Error): boolean {
  const { socket } = error as { socket?: { bytesRead?: number } | null };
  return afterResponse.has(error) || (socket?.bytesRead ?? 0) > 0;
}
