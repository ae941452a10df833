/** Owns the pools of outgoing connections: direct ones, and tunnels through the operator's proxy where one is set. */
import { Agent, type buildConnector, type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';

/** The way out for https (settings `HTTPS_PROXY`, `NO_PROXY`). */
export interface OutboundProxy {
  /** `http:` or `https:`, with user name and password where the proxy wants them. */
  url: string;
  /** Hosts that are called without it, comma-separated; a name stands for those below it too, `*` for all. */
  bypass: string;
}

/**
 * @param parts `judge`: why a tunnel to this host must not be asked for, or undefined; direct connections are judged by the
 *   `connect.lookup` of the options
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
    // Plain http goes to loopback hosts alone, where no proxy can help.
    httpProxy: '',
    httpsProxy: proxy.url,
    noProxy: proxy.bypass,
    // Of the pools of both kinds only tunnels bring a function to connect with.
    factory: (origin, given) => {
      const { connect } = given as { connect?: buildConnector.connector | object };
      const judged =
        typeof connect === 'function' ? { connect: judgedTunnel(connect as buildConnector.connector, judge) } : {};
      return new Pool(origin, { ...given, ...judged });
    },
  });
}

/** The proxy resolves the name once more, by itself: what is refused here is refused before it hears of it. */
function judgedTunnel(
  connect: buildConnector.connector,
  judge: (hostname: string) => Promise<Error | undefined>,
): buildConnector.connector {
  return (options, callback) => {
    judge(options.hostname).then(
      (refusal) => (refusal ? callback(refusal, null) : connect(options, callback)),
      (error: unknown) => callback(error instanceof Error ? error : new Error('The host could not be judged.'), null),
    );
  };
}
