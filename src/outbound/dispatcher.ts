/** Pools of outgoing connections: direct ones, and tunnels through the operator's proxy where one is set. */
import { Agent, type buildConnector, type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';

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

/**
 * @param parts `judge`: the error where the address policy refuses a tunnel to this host. The `connect.lookup` of the
 *   options checks direct connections
 */
export function createDispatcher(parts: {
  options: Agent.Options;
  proxy: OutboundProxy | undefined;
  judge: (hostname: string) => Promise<Error | undefined>;
}): Dispatcher {
  const { options, proxy, judge } = parts;
  if (!proxy) return new Agent(options);
  return new EnvHttpProxyAgent({
    ...options,
    // Plain http calls go only to loopback hosts, which the proxy cannot reach.
    httpProxy: '',
    httpsProxy: proxy.url,
    noProxy: proxy.bypass,
    // undici passes `connect` as a function only for tunnels.
    factory: (origin, poolOptions) => {
      const { connect } = poolOptions as { connect?: buildConnector.connector | object };
      const judged =
        typeof connect === 'function' ? { connect: judgedTunnel(connect as buildConnector.connector, judge) } : {};
      return new Pool(origin, { ...poolOptions, ...judged });
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
const PROXY_CODES = /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_\w+|UND_ERR_ABORTED|UND_ERR_PRX_\w+)$/;

function withProxyFailures(callback: buildConnector.Callback): buildConnector.Callback {
  return (error, socket) => {
    if (!error) return callback(null, socket);
    const code = 'code' in error ? String(error.code) : '';
    callback(PROXY_CODES.test(code) ? new ProxyFailure(code, error) : error, null);
  };
}
