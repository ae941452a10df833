/** Owns every connection that Gatehouse opens: addresses are judged as they are resolved, answers are capped in bytes and time. */
import { lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Agent, type Dispatcher } from 'undici';
import type { AddressPolicy, AddressRule } from './address-policy.ts';

export type OutboundFailure = 'address' | 'timeout' | 'connection' | 'too_large' | 'encoding';

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
  /** The same for a URL that is called again and again: judged and taken apart once, for `dispatcher`. */
  target(url: string): Target;
  /** For streamed answers; connections are pooled by origin and judged like those of `fetch`. */
  dispatcher: Dispatcher;
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

class RefusedAddress extends Error {
  readonly rule: AddressRule;
  constructor(rule: AddressRule) {
    super('The address that this host name resolves to is not allowed.');
    this.rule = rule;
  }
}

const MOST_TARGETS = 1_000;

/** @param parts `lookup` resolves names; the system's where left out */
export function createOutbound(parts: {
  policy: AddressPolicy;
  connectionsPerOrigin?: number;
  lookup?: typeof systemLookup;
}): Outbound {
  const dispatcher = new Agent({
    connect: { lookup: judgedLookup(parts.policy, parts.lookup ?? systemLookup), timeout: 5_000 },
    connections: parts.connectionsPerOrigin ?? 64,
    pipelining: 1,
    headersTimeout: 30_000,
    bodyTimeout: 30_000,
    keepAliveTimeout: 4_000,
    maxHeaderSize: 32 * 1024,
  });

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
    dispatcher,
    assertAllowed,
    target,
    async fetch(url, init, limits) {
      assertAllowed(url);
      const signal = AbortSignal.timeout(limits.deadlineMilliseconds);
      try {
        return await readWhole(dispatcher, url, init, limits.maxBytes, signal);
      } catch (error) {
        throw asOutboundError(error, signal);
      }
    },
    close: () => dispatcher.destroy(),
  };
}

async function readWhole(
  dispatcher: Dispatcher,
  url: string,
  init: OutboundRequest,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Response> {
  const answer = await dispatcher.request({
    ...targetOf(url),
    method: (init.method ?? 'GET') as Dispatcher.HttpMethod,
    headers: { ...init.headers, 'accept-encoding': 'identity' },
    body: init.body ?? null,
    signal,
  });
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

/** Resolves and judges in one step, and connects to what was judged, so that a name cannot change its address in between. */
function judgedLookup(policy: AddressPolicy, lookup: typeof systemLookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, '', 0);
      for (const { address } of addresses) {
        const rule = policy.checkAddress(hostname, address);
        if (rule) return callback(new RefusedAddress(rule), '', 0);
      }
      const [first] = addresses;
      if (options.all) return callback(null, addresses as never);
      return callback(null, first?.address ?? '', first?.family ?? 0);
    });
  };
}
