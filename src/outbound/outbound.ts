/** Makes every outgoing call: addresses are checked as they are resolved, and responses are limited in bytes and time. */

import { lookup as systemLookup } from 'node:dns';
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { remembered } from '../remembered.ts';
import type { AddressPolicy, AddressRule } from './address-policy.ts';
import { createAnonymousShare } from './anonymous-share.ts';
import { addressFailure } from './call-failure.ts';
import { createDispatcher, type OutboundProxy } from './dispatcher.ts';
import { examineName, judgedLookup, RefusedAddress } from './judged-lookup.ts';
import { asOutboundError, OutboundError } from './outbound-error.ts';
import { assertSendable } from './sendable.ts';
import { openStream, type StreamedCall } from './streamed-response.ts';
import { type BeginCall, tracedOutbound } from './traced-outbound.ts';
import { createUpstreamGate, type UpstreamLimits, type UpstreamLoad } from './upstream-gate.ts';

export { asOutboundError, OutboundError, type OutboundFailure } from './outbound-error.ts';

export interface CallLimits {
  /** For the whole call: connecting, headers and body. */
  deadlineMilliseconds: number;
  maxBytes: number;
}

export interface Outbound {
  /**
   * Makes one call and reads its whole response. Redirects are not followed.
   * @throws OutboundError
   */
  fetch(url: string, init: OutboundRequest, limits: CallLimits): Promise<Response>;
  /** @throws OutboundError `address` where the policy refuses this URL as it is written */
  assertAllowed(url: string): void;
  /**
   * Checks a URL before it is stored: as it is written, and as its host name resolves now. A name that cannot be resolved
   * passes, since each call checks again. Returns the rule that it breaks.
   */
  examine(url: string): Promise<AddressRule | undefined>;
  /** Checks and parses a URL that is called repeatedly. The result is cached. @throws OutboundError as `assertAllowed` */
  target(url: string): Target;
  /**
   * GETs a target and streams the response; the caller limits time and bytes. Connections are pooled by origin and checked
   * like those of `fetch`. Redirects are not followed.
   * @param headers alternating names and values
   */
  stream(target: Target, headers: string[]): StreamedCall;
  /** How many calls run and wait now. */
  load(): UpstreamLoad;
  close(): Promise<void>;
}

export interface Target {
  origin: string;
  path: string;
}

export interface OutboundRequest {
  method?: string | undefined;
  headers?: Record<string, string> | undefined;
  body?: string | undefined;
  /** An anonymous request can cause the call: such calls share half of the host's slots (R92). */
  anonymous?: boolean | undefined;
  /** The call carries no trace context. */
  untraced?: boolean | undefined;
}

const MAX_TARGETS = 1_000;

const DEFAULT_LIMITS: UpstreamLimits = { concurrency: 64, waiting: 1_000 };

/**
 * @param parts `lookup`: the system's where left out. `onBusy`: called for each call that is refused as `busy`. `beginCall`:
 *   starts a span for each call, where tracing is on
 */
export function createOutbound(parts: {
  policy: AddressPolicy;
  proxy?: OutboundProxy | undefined;
  limits?: UpstreamLimits;
  onBusy?: () => void;
  beginCall?: BeginCall | undefined;
  lookup?: typeof systemLookup;
}): Outbound {
  const lookup = parts.lookup ?? systemLookup;
  const limits = parts.limits ?? DEFAULT_LIMITS;
  const refuse = () => {
    parts.onBusy?.();
    return new OutboundError('busy', { words: 'too many calls to this host run and wait already' });
  };
  const gate = createUpstreamGate({ limits, refuse });
  const share = createAnonymousShare({ limits, refuse });
  const pools = createDispatcher({
    options: {
      connect: { lookup: judgedLookup(parts.policy, lookup), timeout: 5_000 },
      connections: limits.concurrency,
      pipelining: 1,
      headersTimeout: 30_000,
      bodyTimeout: 30_000,
      keepAliveTimeout: 4_000,
      maxHeaderSize: 32 * 1024,
    },
    proxy: parts.proxy,
    judge: (hostname) => examineName(parts.policy, lookup, hostname),
  });
  const dispatcher = pools.compose(gate.interceptor);

  const assertAllowed = (url: string): void => {
    const rule = parts.policy.checkUrl(url);
    if (rule) throw new OutboundError('address', addressFailure(url, rule));
  };

  const targets = remembered<Target>(MAX_TARGETS);
  const target = (url: string): Target => {
    const cached = targets.get(url);
    if (cached) return cached;
    assertAllowed(url);
    const parsed = targetOf(url);
    targets.set(url, parsed);
    return parsed;
  };

  const outbound: Outbound = {
    assertAllowed,
    async examine(url) {
      const rule = parts.policy.checkUrl(url);
      if (rule) return rule;
      const refusal = await examineName(parts.policy, lookup, new URL(url).hostname);
      return refusal instanceof RefusedAddress ? refusal.rule : undefined;
    },
    target,
    stream({ origin, path }, headers) {
      try {
        assertSendable(headers);
      } catch (error) {
        return { response: Promise.reject(error), destroy: () => undefined };
      }
      const leave = gate.enter(origin);
      if (leave) return openStream(pools, { origin, path, method: 'GET', headers }, leave);
      return { response: Promise.reject(refuse()), destroy: () => undefined };
    },
    async fetch(url, init, limits) {
      assertAllowed(url);
      const signal = AbortSignal.timeout(limits.deadlineMilliseconds);
      try {
        const call = () => readWhole(dispatcher, url, init, limits.maxBytes, signal);
        return await (init.anonymous ? beforeAbort(signal, share.run(new URL(url).origin, signal, call)) : call());
      } catch (error) {
        throw asOutboundError(error, url, signal);
      }
    },
    load() {
      const { running, waiting } = gate.load();
      return { running, waiting: waiting + share.waiting() };
    },
    close: () => pools.destroy(),
  };
  return parts.beginCall ? tracedOutbound(outbound, parts.beginCall) : outbound;
}

async function readWhole(
  dispatcher: Dispatcher,
  url: string,
  init: OutboundRequest,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Response> {
  const headers = { ...init.headers, 'accept-encoding': 'identity' };
  assertSendable(Object.entries(headers).flat());
  const response = await beforeAbort(
    signal,
    dispatcher.request({
      ...targetOf(url),
      method: (init.method ?? 'GET') as Dispatcher.HttpMethod,
      headers,
      body: init.body ?? null,
      signal,
    }),
  );
  try {
    if (isEncoded(response.headers)) {
      throw new OutboundError('encoding', {
        words: 'the response is compressed, although no compression was requested',
      });
    }
    const body = await readCapped(response.body, maxBytes);
    const empty = [204, 205, 304].includes(response.statusCode);
    return new Response(empty ? null : body, { status: response.statusCode, headers: plainHeaders(response.headers) });
  } catch (error) {
    response.body.on('error', () => undefined).destroy();
    throw error;
  }
}

/** True for a compressed body. No call accepts one, since it could be of any size once it is unpacked. */
export function isEncoded({ 'content-encoding': encoding }: IncomingHttpHeaders): boolean {
  // undici returns an array for a repeated header. The list may be empty (RFC 9110 sections 5.6.1 and 8.4).
  return encoding !== undefined && !/^(identity|[\s,])*$/i.test(String(encoding));
}

/** Rejects on abort also while the call waits: undici watches the signal only once it sends the request. */
function beforeAbort<T>(signal: AbortSignal, response: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    response.then(resolve, reject);
  });
}

function targetOf(url: string): Target {
  const { origin, pathname, search } = new URL(url);
  return { origin, path: pathname + search };
}

async function readCapped(body: AsyncIterable<Buffer>, maxBytes: number): Promise<Buffer<ArrayBuffer>> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes)
      throw new OutboundError('too_large', { words: `the response is larger than ${maxBytes} bytes` });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function plainHeaders(headers: Record<string, string | string[] | undefined>): Headers {
  const plain = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) plain.append(name, one);
    }
  }
  return plain;
}
