/** Owns every connection that Gatehouse opens: addresses are judged as they are resolved, answers are capped in bytes and time. */
import { lookup as systemLookup } from 'node:dns';
import type { Dispatcher } from 'undici';
import type { AddressPolicy, AddressRule } from './address-policy.ts';
import { createDispatcher, type OutboundProxy } from './dispatcher.ts';
import { examineName, judgedLookup, RefusedAddress } from './judged-lookup.ts';
import { openStream, type StreamedCall } from './streamed-answer.ts';
import { createUpstreamGate, type UpstreamLimits, type UpstreamLoad } from './upstream-gate.ts';

/** `busy`: as many calls to that host run and wait already as may. */
export type OutboundFailure = 'address' | 'timeout' | 'connection' | 'too_large' | 'encoding' | 'busy';

/** A call that brought no usable answer. `reason` tells why; the URL, which may hold a code, is in no text. */
export class OutboundError extends Error {
  readonly reason: OutboundFailure;
  constructor(reason: OutboundFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'OutboundError';
    this.reason = reason;
  }
}

export interface CallLimits {
  /** For the whole call: connecting, headers and body. */
  deadlineMilliseconds: number;
  maxBytes: number;
}

export interface Outbound {
  /**
   * Makes one call and reads its whole answer. Redirects are not followed.
   * @throws OutboundError
   */
  fetch(url: string, init: OutboundRequest, limits: CallLimits): Promise<Response>;
  /** Throws an OutboundError with the reason `address` when the policy refuses this URL as it is written. */
  assertAllowed(url: string): void;
  /**
   * Judges a URL before it is kept: as it is written, and as its host name resolves now. A name that cannot be resolved passes:
   * each call judges again. Answers the rule that it breaks, or undefined.
   */
  examine(url: string): Promise<AddressRule | undefined>;
  /** Judges like `assertAllowed`, for a URL that is called again and again: judged and taken apart once. */
  target(url: string): Target;
  /**
   * GETs a target, for an answer that is handed on as it comes; time and bytes are the caller's to bound. Connections are
   * pooled by origin and judged like those of `fetch`. Redirects are not followed.
   * @param headers names and values by turns
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
}

const MOST_TARGETS = 1_000;

/** Where no setting says otherwise. */
const DEFAULT_LIMITS: UpstreamLimits = { concurrency: 64, waiting: 1_000 };

/**
 * @param parts `lookup` resolves names; the system's where left out. `proxy`: the way out for https, where there is one.
 *   `onBusy`: hears of each call for which there was no room
 */
export function createOutbound(parts: {
  policy: AddressPolicy;
  proxy?: OutboundProxy | undefined;
  limits?: UpstreamLimits;
  onBusy?: () => void;
  lookup?: typeof systemLookup;
}): Outbound {
  const lookup = parts.lookup ?? systemLookup;
  const limits = parts.limits ?? DEFAULT_LIMITS;
  const refuse = () => {
    parts.onBusy?.();
    return new OutboundError('busy', 'Too many calls to this host run and wait already.');
  };
  const gate = createUpstreamGate({ limits, refuse });
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
    async judge(hostname) {
      const rule = await examineName(parts.policy, lookup, hostname);
      return rule && new RefusedAddress(rule);
    },
  });
  const dispatcher = pools.compose(gate.interceptor);

  const assertAllowed = (url: string): void => {
    const rule = parts.policy.checkUrl(url);
    if (rule) throw new OutboundError('address', `The outbound address policy refused this call: ${rule}.`);
  };

  const targets = new Map<string, Target>();
  const target = (url: string): Target => {
    const known = targets.get(url);
    if (known) return known;
    assertAllowed(url);
    const made = targetOf(url);
    // The settings hold few such URLs; whatever fills this up is something else.
    if (targets.size >= MOST_TARGETS) targets.clear();
    targets.set(url, made);
    return made;
  };

  return {
    assertAllowed,
    examine: async (url) => parts.policy.checkUrl(url) ?? examineName(parts.policy, lookup, new URL(url).hostname),
    target,
    stream({ origin, path }, headers) {
      const leave = gate.enter(origin);
      if (leave) return openStream(pools, { origin, path, method: 'GET', headers }, leave);
      return { answer: Promise.reject(refuse()), destroy: () => undefined };
    },
    async fetch(url, init, limits) {
      assertAllowed(url);
      const signal = AbortSignal.timeout(limits.deadlineMilliseconds);
      try {
        return await readWhole(dispatcher, url, init, limits.maxBytes, signal);
      } catch (error) {
        throw asOutboundError(error, signal);
      }
    },
    load: gate.load,
    close: () => pools.destroy(),
  };
}

async function readWhole(
  dispatcher: Dispatcher,
  url: string,
  init: OutboundRequest,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Response> {
  const answer = await inTime(
    signal,
    dispatcher.request({
      ...targetOf(url),
      method: (init.method ?? 'GET') as Dispatcher.HttpMethod,
      headers: { ...init.headers, 'accept-encoding': 'identity' },
      body: init.body ?? null,
      signal,
    }),
  );
  try {
    // A body that was compressed all the same could unfold to any size.
    if (answer.headers['content-encoding'] && answer.headers['content-encoding'] !== 'identity') {
      throw new OutboundError('encoding', 'The answer is compressed although that was not asked for.');
    }
    const body = await readCapped(answer.body, maxBytes);
    const empty = [204, 205, 304].includes(answer.statusCode);
    return new Response(empty ? null : body, { status: answer.statusCode, headers: plainHeaders(answer.headers) });
  } catch (error) {
    answer.body.on('error', () => undefined).destroy();
    throw error;
  }
}

/** undici hears of the signal only once a call has its turn. */
function inTime<T>(signal: AbortSignal, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    answer.then(resolve, reject);
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
    if (size > maxBytes) throw new OutboundError('too_large', `The answer is larger than ${maxBytes} bytes.`);
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

function asOutboundError(error: unknown, signal: AbortSignal): OutboundError {
  if (error instanceof OutboundError) return error;
  if (error instanceof RefusedAddress) {
    return new OutboundError('address', `The outbound address policy refused this call: ${error.rule}.`);
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (signal.aborted || /TIMEOUT|TIMEDOUT/.test(code))
    return new OutboundError('timeout', 'The call took too long.', { cause: error });
  return new OutboundError('connection', 'The connection failed.', { cause: error });
}
