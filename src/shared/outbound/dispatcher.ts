/** Pools of outgoing connections: direct, or tunnels through the operator's proxy if one is set. */
import type { LookupFunction, Socket } from 'node:net';
import { Agent, buildConnector, type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';
import { codeOf } from '../errors.ts';

/** The proxy for https calls (settings `HTTPS_PROXY`, `NO_PROXY`). */
export interface OutboundProxy {
  /** `http:` or `https:`, with user name and password if the proxy requires them. */
  url: string;
  /** Comma-separated hosts that are called directly. A name includes its subdomains; `*` means all hosts. */
  bypass: string;
}

/** The proxy cannot be reached, or did not open a tunnel to the host. */
export class ProxyFailure extends Error {
  readonly code: string;
  constructor(code: string, cause: Error) {
    super('The proxy opened no tunnel.', { cause });
    this.code = code;
  }
}

export interface Pools {
  /** Connections stay open for a while and are reused. Use them only for requests that may be sent twice. */
  keepAlive: Dispatcher;
  /** Each request has a new connection, so the server cannot have closed it as idle. */
  singleUse: Dispatcher;
}

/** Limits the time of the name lookup, TCP, TLS and the tunnel together. */
const CONNECT_TIMEOUT_MS = 5_000;

const OPTIONS: Agent.Options = {
  headersTimeout: 30_000,
  bodyTimeout: 30_000,
  // A pool closes with its last connection. Token responses can name many hosts, which may request a longer keep-alive.
  keepAliveTimeout: 4_000,
  keepAliveMaxTimeout: 10_000,
  maxHeaderSize: 32 * 1024,
};

interface ConnectionParts {
  proxy: OutboundProxy | undefined;
  /** Resolves the hosts of direct connections and refuses addresses that the policy forbids. */
  lookup: LookupFunction;
  /** Resolves the host of the proxy. */
  proxyLookup: LookupFunction;
  /** Returns an error if the address policy refuses a tunnel to this host. */
  checkHostname: (hostname: string) => Promise<Error | undefined>;
}

/** @param parts `connections`: the maximum number of connections per pool and host */
export function createPools(parts: ConnectionParts & { connections: number }): Pools {
  const { connections } = parts;
  return {
    keepAlive: createDispatcher({ ...OPTIONS, connections, pipelining: 1 }, parts),
    // HTTP/2 would share a connection between requests.
    singleUse: createDispatcher({ ...OPTIONS, connections, pipelining: 0, allowH2: false }, parts),
  };
}

function createDispatcher(
  options: Agent.Options,
  { proxy, lookup, proxyLookup, checkHostname }: ConnectionParts,
): Dispatcher {
  const { allowH2 = true } = options;
  const timeout = CONNECT_TIMEOUT_MS;
  const directPool = (origin: string | URL, poolOptions: object) =>
    // Each pool has its own connector, since TLS sessions are resumed only within one connector.
    new Pool(origin, { ...poolOptions, connect: withErrorTracking(buildConnector({ lookup, timeout, allowH2 })) });
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
      // A proxy that does not respond to CONNECT occupies connections no longer than an unreachable host does.
      return new Pool(url, { headersTimeout: timeout, connect: connectToProxy(connect) });
    },
    factory: (origin, poolOptions) => {
      // undici passes `connect` only for tunnels.
      const { connect } = poolOptions as { connect?: buildConnector.connector };
      if (!connect) return directPool(origin, poolOptions);
      return new Pool(origin, { ...poolOptions, connect: withErrorTracking(checkedTunnel(connect, checkHostname)) });
    },
  });
}

/** Checks the host before the tunnel is requested, since the proxy resolves the name itself. */
function checkedTunnel(
  connect: buildConnector.connector,
  checkHostname: (hostname: string) => Promise<Error | undefined>,
): buildConnector.connector {
  return (options, callback) => {
    checkHostname(options.hostname).then(
      (refusal) => (refusal ? callback(refusal, null) : connect(options, withProxyFailures(callback))),
      (error: unknown) =>
        callback(error instanceof Error ? error : new Error('The address policy could not check the host.'), null),
    );
  };
}

/** The codes of the proxy's own failures. Failures of the host occur only later, in the TLS handshake. */
const PROXY_CODES =
  /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_\w+|NAME_TIMEOUT|UND_ERR_ABORTED|UND_ERR_PRX_\w+|UND_ERR_HEADERS_TIMEOUT)$/;

/** Reports a failed connection to the proxy as a failure of the proxy, not of the host. */
function connectToProxy(connect: buildConnector.connector): buildConnector.connector {
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

/** The errors of connections on which bytes of a response had arrived. */
const errorsAfterResponse = new WeakSet<Error>();

/** Records which errors ended a connection that had been used, since undici does not report it. */
function withErrorTracking(connect: buildConnector.connector): buildConnector.connector {
  const trackErrors = (socket: Socket) => {
    // This listener runs before that of undici, which passes the error on.
    socket.once('error', (error) => {
      if (socket.bytesRead > 0) errorsAfterResponse.add(error);
    });
  };
  return (options, callback) =>
    connect(options, (...[error, socket]: Parameters<buildConnector.Callback>) => {
      if (error) return callback(error, null);
      trackErrors(socket);
      callback(null, socket);
    });
}

/** The codes of connections that the peer closed, by FIN, by RST or before a write. */
const CLOSED_CODES: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE', 'ECONNABORTED']);

/** Returns true if the peer closed the connection. */
export const isClosed = (error: Error): boolean => CLOSED_CODES.has(codeOf(error) ?? '');

/** Returns true if the connection had been used for an earlier response. */
export function wasUsed(error: Error): boolean {
  const { socket } = error as { socket?: { bytesRead?: number } | null };
  return errorsAfterResponse.has(error) || (socket?.bytesRead ?? 0) > 0;
}
