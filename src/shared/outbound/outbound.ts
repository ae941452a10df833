/** Makes every outgoing call: checks addresses as they resolve, and limits responses in bytes and time. */
import { lookup as systemLookup } from 'node:dns';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { Dispatcher } from 'undici';
import { codeOf } from '../errors.ts';
import { remembered } from '../remembered.ts';
import type { AddressPolicy, AddressRule } from './address-policy.ts';
import { checkHostname, createCheckedLookup, createUncheckedLookup, RefusedAddress } from './checked-lookup.ts';
import { createPools, type OutboundProxy } from './dispatcher.ts';
import { createHostNames, type OnSlowName, UnresolvedName } from './host-names.ts';
import { addressError, asOutboundError, type CallFailure, callFailure, OutboundError } from './outbound-error.ts';
import {
  type AnonymousCall,
  createOutboundGate,
  type OutboundLimits,
  type OutboundLoad,
  type Reservation,
  type Share,
} from './outbound-gate.ts';
import { openStream, type StreamedCall } from './streamed-response.ts';
import { wholeResponse } from './whole-response.ts';

export { asOutboundError, BUSY_RETRY_SECONDS, OutboundError } from './outbound-error.ts';

export interface CallLimits {
  /** The time limit of the whole call: connecting, headers and body. */
  deadlineMilliseconds: number;
  /** The maximum size of the body. */
  maxBytes: number;
  /** The caller needs only the status; the body is read for at most a second. */
  statusDecides?: boolean;
}

export interface Outbound {
  /**
   * Makes one call and reads its whole response; the body of an error response may be partial. Follows no redirects.
   * @throws OutboundError
   */
  fetch(url: string, init: OutboundRequest, limits: CallLimits): Promise<Response>;
  /** @throws OutboundError `address` if the policy refuses this URL before its host name is resolved */
  assertAllowed(url: string): void;
  /**
   * Checks a URL before it is stored, and the addresses that its host name resolves to now. A name that cannot be
   * resolved passes, since each call checks again. Returns the rule that the URL breaks.
   */
  examine(url: string): Promise<AddressRule | undefined>;
  /** Checks and parses a URL that is called repeatedly; the result is cached. @throws OutboundError `address` */
  target(url: string): Target;
  /**
   * Calls a target and streams the response; the caller limits time and bytes. Connections are pooled by origin and
   * checked like those of `fetch`. Follows no redirects.
   * @param headers alternating names and values
   */
  stream(target: Target, headers: string[], call?: StreamRequest): StreamedCall;
  /**
   * Does work of a service within the services' share of the calls to a host, once the work has its turn (R134).
   * @param service as in `Share`
   * @throws OutboundError `busy` if too much work waits, or if the turn does not come within 15 s
   */
  runInServiceShare<T>(host: string, service: string, work: () => Promise<T>): Promise<T>;
  load(): OutboundLoad;
  close(): Promise<void>;
}

export interface Target {
  origin: string;
  path: string;
}

/** The kinds of hosts that Gatehouse calls. */
export type Peer = 'provider' | 'platform' | 'webhook' | 'bin_service';

/** The class of a call's status, or the reason why it had no usable response. */
export type CallOutcome = '2xx' | '3xx' | '4xx' | '5xx' | CallFailure;

export interface EndedCall {
  peer: Peer;
  /** Id of the connected app that the call was made for, if any. */
  app: string | undefined;
  outcome: CallOutcome;
  /** The time until the whole response arrived; for a streamed response, until its head arrived. */
  seconds: number;
}

export interface StreamRequest {
  /** Default: `GET`. */
  method?: string | undefined;
  body?: Buffer | undefined;
  /** Id of the connected app whose platform is called. */
  app?: string;
  /** The service that causes the call, as in `Share`. */
  service?: string | undefined;
}

interface OutboundRequest {
  /** Default: `provider`. */
  peer?: Peer | undefined;
  /** Id of the connected app that the call is made for. */
  app?: string | undefined;
  method?: string | undefined;
  headers?: Record<string, string> | undefined;
  body?: string | undefined;
  /** Set if an anonymous request can cause the call; these calls share a part of the host's slots (R92). */
  anonymous?: AnonymousCall | undefined;
  /** As in `Share`; the calls of services share a part of the host's slots (R134). */
  service?: string | undefined;
  /** The call carries no trace context. */
  untraced?: boolean | undefined;
}

/**
 * Starts a span for a call, as a child of the request's span. It omits the path and query: the path of a BIN lookup
 * holds digits of a card number, and a query may hold a code.
 */
type BeginCall = (call: { method: string; origin: string }) => {
  /** Headers that carry the trace context to the host (W3C Trace Context). */
  headers: Readonly<Record<string, string>>;
  responded(status: number): void;
  /** Called once. @param failure a code, since a text might repeat data of the request */
  end(failure?: string): void;
};

const MAX_TARGETS = 1_000;
/** A turn must come within the time that a call to a provider may take. */
const MAX_TURN_MS = 15_000;

const DEFAULT_LIMITS: OutboundLimits = { concurrency: 64, waiting: 1_000 };

/**
 * @param parts `lookup`: resolves host names; by default that of the system. `onBusy`: called for each call that is
 *   refused as `busy`. `onEnded`: called for each call once it has ended. `beginCall`: undefined if tracing is off.
 *   `onSlowName`: called for each lookup of a host name that takes longer than a second
 */
export function createOutbound(parts: {
  policy: AddressPolicy;
  proxy?: OutboundProxy | undefined;
  limits?: OutboundLimits;
  onBusy?: () => void;
  onEnded?: (call: EndedCall) => void;
  beginCall?: BeginCall | undefined;
  onSlowName?: OnSlowName;
  /** The size of Node's pool (`UV_THREADPOOL_SIZE`). */
  threadPoolSize?: number | undefined;
  lookup?: typeof systemLookup;
}): Outbound {
  const { policy, lookup = systemLookup, limits = DEFAULT_LIMITS, beginCall, onEnded } = parts;
  const refuseBusy = () => {
    parts.onBusy?.();
    return new OutboundError('busy', 'too many calls to this host are running and waiting');
  };
  const gate = createOutboundGate(limits, refuseBusy);
  const names = createHostNames({ lookup, onSlow: parts.onSlowName, threadPoolSize: parts.threadPoolSize });
  const pools = createPools({
    connections: limits.concurrency,
    proxy: parts.proxy,
    lookup: createCheckedLookup(policy, names),
    proxyLookup: createUncheckedLookup(names),
    checkHostname: (hostname) => checkHostname(policy, names, hostname),
  });

  const assertAllowed = (url: string): void => {
    const rule = policy.checkUrl(url);
    if (rule) throw addressError(url, rule);
  };

  const targets = remembered<Target>(MAX_TARGETS);
  const target = (url: string): Target => {
    const cached = targets.get(url);
    if (cached) return cached;
    assertAllowed(url);
    const { origin, pathname, search } = new URL(url);
    const parsed = { origin, path: pathname + search };
    targets.set(url, parsed);
    return parsed;
  };

  const send = ({ origin, path, method, body, ...request }: OutboundRequest & Target): StreamedCall => {
    const headers = Object.entries({ ...request.headers, 'accept-encoding': 'identity' }).flat();
    assertSendable(headers);
    const options = { origin, path, method: (method ?? 'GET') as Dispatcher.HttpMethod, headers, body: body ?? null };
    return openStream({ pools, reservation: gate.reserve(origin, shareOf(request)) }, options, {
      ended: () => undefined,
    });
  };

  const turnOf = (reservation: Reservation): Promise<void> =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(refuseBusy()), MAX_TURN_MS);
      reservation.begin(() => {
        clearTimeout(timer);
        resolve();
      });
    });

  return {
    assertAllowed,
    async examine(url) {
      const rule = policy.checkUrl(url);
      if (rule) return rule;
      const refusal = await checkHostname(policy, names, new URL(url).hostname);
      return refusal instanceof RefusedAddress ? refusal.rule : undefined;
    },
    target,
    stream({ origin, path }, requestHeaders, { method = 'GET', body, app, service } = {}) {
      const startedAt = performance.now();
      let head: { status: number; seconds: number } | undefined;
      const end = (failure: Error | undefined) => {
        const outcome = failure ? callFailure(failure) : statusClass(head?.status ?? 0);
        onEnded?.({ peer: 'platform', app, outcome, seconds: head?.seconds ?? secondsSince(startedAt) });
      };
      const span = beginCall?.({ method, origin });
      const headers = span ? [...requestHeaders, ...Object.entries(span.headers).flat()] : requestHeaders;
      try {
        assertSendable(headers);
        return openStream(
          { pools, reservation: gate.reserve(origin, shareOf({ service })) },
          { origin, path, method: method as Dispatcher.HttpMethod, headers, body: body ?? null },
          {
            responded(status) {
              head = { status, seconds: secondsSince(startedAt) };
              span?.responded(status);
            },
            ended(failure) {
              end(failure);
              span?.end(failure && failureCode(failure));
            },
          },
        );
      } catch (error) {
        end(error as Error);
        span?.end(failureCode(error));
        return { response: Promise.reject(error), destroy: () => undefined, wasSent: () => false };
      }
    },
    async fetch(url, request, { deadlineMilliseconds, ...bodyLimits }) {
      assertAllowed(url);
      const startedAt = performance.now();
      const end = (outcome: CallOutcome) => {
        const { peer = 'provider', app } = request;
        onEnded?.({ peer, app, outcome, seconds: secondsSince(startedAt) });
      };
      const { origin, hostname, pathname, search } = new URL(url);
      const span = beginCall?.({ method: request.method ?? 'GET', origin });
      const headers = { ...request.headers, ...(!request.untraced && span?.headers) };
      const signal = AbortSignal.timeout(deadlineMilliseconds);
      let sending: StreamedCall | undefined;
      try {
        sending = send({ ...request, origin, path: pathname + search, headers });
        const response = await wholeResponse(sending, { ...bodyLimits, signal });
        end(statusClass(response.status));
        span?.responded(response.status);
        span?.end();
        return response;
      } catch (error) {
        const sent = sending?.wasSent() ?? false;
        const isUnresolved = signal.aborted && !sent && names.isAwaited(hostname);
        const failure = asOutboundError(isUnresolved ? new UnresolvedName(hostname, false) : error, url, {
          aborted: signal.aborted,
          isProxied: parts.proxy !== undefined,
          sent,
        });
        end(failure.reason);
        span?.end(failure.reason);
        throw failure;
      }
    },
    async runInServiceShare(host, service, work) {
      const reservation = gate.reserveShare(host, service);
      try {
        await turnOf(reservation);
        return await work();
      } finally {
        reservation.release();
      }
    },
    load: gate.load,
    close: async () => void (await Promise.all([pools.keepAlive.destroy(), pools.singleUse.destroy()])),
  };
}

/** Returns the share that a call belongs to; undefined for a call that is made for a user. */
function shareOf({ anonymous, service }: Pick<OutboundRequest, 'anonymous' | 'service'>): Share | undefined {
  if (anonymous !== undefined) return { anonymous };
  return service === undefined ? undefined : { service };
}

const failureCode = (error: unknown) => (error instanceof OutboundError ? error.reason : (codeOf(error) ?? 'stopped'));

const secondsSince = (startedAt: number) => (performance.now() - startedAt) / 1000;

/** Returns the class of a status. @param status status of a final response */
const statusClass = (status: number) => `${Math.floor(status / 100)}xx` as '2xx' | '3xx' | '4xx' | '5xx';

/**
 * Refuses headers that undici would refuse inside `dispatch`, after which its pool never uses that connection again.
 * Origin and path come from `new URL` and need no check.
 * @param headers alternating names and values
 * @throws TypeError that names the header, never its value
 */
function assertSendable(headers: readonly string[]): void {
  for (let index = 0; index < headers.length; index += 2) {
    const [name = '', value = ''] = [headers[index], headers[index + 1]];
    validateHeaderName(name);
    validateHeaderValue(name, value);
  }
}
