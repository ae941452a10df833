/** Calls the remote BIN lookup service with one BIN, and returns every failure as a typed result. */
import { setTimeout } from 'node:timers/promises';
import { z } from 'zod';
import type { BinBudget } from '../../shared/bin/lookup-result.ts';
import type { Bin } from '../../shared/bin/parse-bin.ts';
import { type BinRecord, isEmptyRecord } from '../../shared/bin/record.ts';
import { parseJson } from '../../shared/json.ts';
import { type Outbound, OutboundError } from '../../shared/outbound/outbound.ts';
import { retryAfterSeconds } from '../../shared/outbound/retry-after.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_SECONDS, isoTime } from '../../shared/time.ts';
import { createBreaker } from './breaker.ts';
import type { Reservation } from './quota.ts';
import { recordFromResponse } from './response.ts';

/**
 * `response`: the response could not be read. `paused`: nothing was sent, since too many calls in a row failed. `busy`:
 * nothing was sent, since too many calls of the caller's share run and wait (R89, R134).
 */
export type UnavailableReason = 'timeout' | 'connection' | 'status' | 'response' | 'key_refused' | 'paused' | 'busy';
/**
 * `asOf`: date of the facts, or of the response if the service states none (YYYY-MM-DD). `retryAfterSeconds` and
 * `secondsLeft` are whole seconds, at least 1.
 */
export type RemoteResult =
  | { outcome: 'found'; record: BinRecord; digitsMatched: number; asOf: string; testData?: true }
  | { outcome: 'not_found' }
  | { outcome: 'limited'; retryAfterSeconds: number }
  | { outcome: 'unavailable'; reason: UnavailableReason; retryAfterSeconds?: number }
  | { outcome: 'not_reserved'; secondsLeft: number; spent: BinBudget };

export type RemoteFailure = Exclude<RemoteResult, { outcome: 'found' | 'not_found' }>;

export interface BinClient {
  /** Sets the API key for later calls. */
  useApiKey(apiKey: string | undefined): void;
  /**
   * Looks up one BIN. Nothing is sent while the service's `Retry-After` runs, or during the pause after several
   * failures in a row.
   * `reserve` is called right before sending. If no connection is made, the call is retried once. The reservation is
   * released if no connection is made again, or if the call was refused before it was sent. Rejects only if the store
   * fails.
   * @param relayTokenId the relay token that causes the call; undefined for a user
   */
  lookUp(bin: Bin, reserve?: () => Promise<Reservation>, relayTokenId?: string): Promise<RemoteResult>;
  /** The failure that `lookUp` would return without sending anything, if there is one. */
  refusal(): Promise<RemoteFailure | undefined>;
}

export interface BinClientParts {
  /** Base URL, to which the BIN is added as the last path segment. */
  url: string;
  apiKey?: string | undefined;
  auth: 'bearer' | 'query' | 'basic';
  /** Follows no redirects, applies the address policy and the limits, and rejects with an OutboundError. */
  fetch: Outbound['fetch'];
  store: Store;
  /** Milliseconds since the epoch. */
  clock: () => number;
  /** Deadline of the whole call; default 5,000. */
  deadlineMilliseconds?: number;
  /** Pauses for `openMilliseconds` (default 10,000) after `failures` (default 5) in a row. */
  breaker?: { failures: number; openMilliseconds: number };
}

const MAX_BYTES = 64 * 1024;
const DEFAULT_DEADLINE_MS = 5_000;
const DEFAULT_PAUSE_SECONDS = 60;
const MAX_PAUSE_SECONDS = 31 * DAY_SECONDS;
const BREAKER = { failures: 5, openMilliseconds: 10_000 };
const RETRY_MS = 200;

/** Codes of undici and the system for a connection that was not made, so that nothing was sent. */
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);

/** @throws TypeError if `url` is not a URL */
export function createBinClient(parts: BinClientParts): BinClient {
  const base = new URL(parts.url);
  let { apiKey } = parts;
  const pause = createPause(parts.store, parts.clock);
  const limits = {
    deadlineMilliseconds: parts.deadlineMilliseconds ?? DEFAULT_DEADLINE_MS,
    maxBytes: MAX_BYTES,
  };
  const breaker = createBreaker<RemoteResult>({
    ...(parts.breaker ?? BREAKER),
    // A caller who uses up a share must not pause the lookups of the others.
    isFailure: (result) => result.outcome === 'unavailable' && result.reason !== 'busy',
  });
  const call = async (bin: Bin, relayTokenId: string | undefined): Promise<RemoteResult> => {
    const { url, headers } = requestFor(base, { apiKey, auth: parts.auth }, bin);
    // Trace ids can look like further digits of the card number (R86).
    return readResponse(
      await parts.fetch(url, { peer: 'bin_service', headers, service: relayTokenId, untraced: true }, limits),
      bin,
      parts.clock(),
    );
  };
  const callReserved: BinClient['lookUp'] = async (bin, reserve, relayTokenId) => {
    const reservation = await reserve?.();
    if (reservation?.granted === false) {
      const { secondsLeft, spent } = reservation;
      return { outcome: 'not_reserved', secondsLeft, spent };
    }
    try {
      return await call(bin, relayTokenId).catch((error: unknown) => {
        if (!isUnsent(error)) throw error;
        return setTimeout(RETRY_MS).then(() => call(bin, relayTokenId));
      });
    } catch (error) {
      if (!(error instanceof OutboundError)) throw error;
      if (isUnsent(error) || error.reason === 'address' || error.reason === 'busy') await reservation?.release();
      return { outcome: 'unavailable', reason: reasonOf(error) };
    }
  };
  const pausedFor = (retryAfterSeconds: number): RemoteFailure => {
    return { outcome: 'unavailable', reason: 'paused', retryAfterSeconds };
  };
  const refusal = async (): Promise<RemoteFailure | undefined> => {
    const retryAfterSeconds = await pause.secondsLeft();
    if (retryAfterSeconds) return { outcome: 'limited', retryAfterSeconds };
    const secondsLeft = breaker.secondsLeft();
    return secondsLeft === undefined ? undefined : pausedFor(secondsLeft);
  };
  return {
    useApiKey(newKey) {
      apiKey = newKey;
    },
    refusal,
    async lookUp(bin, reserve, relayTokenId) {
      const failure = await refusal();
      if (failure) return failure;
      const response = await breaker.run(() => callReserved(bin, reserve, relayTokenId), pausedFor);
      if (response.outcome === 'limited') await pause.begin(response.retryAfterSeconds);
      return response;
    },
  };
}

/** Returns true if no connection was made, so that the service cannot have counted the call. */
function isUnsent(error: unknown): boolean {
  const cause = error instanceof OutboundError ? error.cause : undefined;
  return cause instanceof Error && 'code' in cause && NOT_CONNECTED.has(String(cause.code));
}

function requestFor(
  base: URL,
  { apiKey, auth }: Pick<BinClientParts, 'apiKey' | 'auth'>,
  bin: Bin,
): { url: string; headers: Record<string, string> } {
  const url = new URL(base);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${bin}`;
  const headers: Record<string, string> = { accept: 'application/json', 'accept-version': '3' };
  if (apiKey === undefined) return { url: url.href, headers };
  if (auth === 'query') url.searchParams.set('apiKey', apiKey);
  if (auth === 'bearer') headers.authorization = `Bearer ${apiKey}`;
  if (auth === 'basic') headers.authorization = `Basic ${Buffer.from(`${apiKey}:`).toString('base64')}`;
  return { url: url.href, headers };
}

async function readResponse(response: Response, bin: Bin, now: number): Promise<RemoteResult> {
  const statedSeconds = retryAfterSeconds(response.headers.get('retry-after'), now, MAX_PAUSE_SECONDS);
  const waitSeconds = statedSeconds === undefined ? undefined : Math.max(1, statedSeconds);
  const retry = waitSeconds === undefined ? {} : { retryAfterSeconds: waitSeconds };
  if (response.ok) return readRecord(await response.text(), bin, response.headers, now);
  switch (response.status) {
    case 404:
      return { outcome: 'not_found' };
    case 429:
      return { outcome: 'limited', retryAfterSeconds: waitSeconds ?? DEFAULT_PAUSE_SECONDS };
    case 401:
    case 403:
      return { outcome: 'unavailable', reason: 'key_refused', ...retry };
    default:
      return { outcome: 'unavailable', reason: 'status', ...retry };
  }
}

function readRecord(text: string, bin: Bin, headers: Headers, now: number): RemoteResult {
  const record = recordFromResponse(parseJson(text));
  if (!record) return { outcome: 'unavailable', reason: 'response' };
  // The source "rules" adds nothing, because Gatehouse knows the rules of the networks itself.
  if (isEmptyRecord(record) || headers.get('gatehouse-source') === 'rules') return { outcome: 'not_found' };
  // Most services do not state how many digits matched. Then all digits of the request are assumed to match.
  const matched = headers.get('gatehouse-digits-matched') ?? '';
  const digits = /^[0-8]$/.test(matched) ? Math.min(Number(matched), bin.length) : bin.length;
  const asOf = dateOf(headers.get('gatehouse-as-of'), now);
  const isTest = headers.get('gatehouse-test-data') === 'true';
  return { outcome: 'found', record, digitsMatched: digits, asOf, ...(isTest && { testData: isTest }) };
}

/** Returns the date that the service states for its facts; today if that is missing, invalid, or in the future. */
function dateOf(header: string | null, now: number): string {
  const today = isoTime(now).slice(0, 10);
  const { data = today } = z.iso.date().safeParse(header);
  return data < today ? data : today;
}

function reasonOf(error: OutboundError): UnavailableReason {
  if (error.reason === 'timeout' || error.reason === 'busy') return error.reason;
  return error.reason === 'too_large' || error.reason === 'encoding' ? 'response' : 'connection';
}

/** The `Retry-After` of the service, shared by all processes. */
function createPause(store: Store, clock: () => number) {
  return {
    async secondsLeft(): Promise<number | undefined> {
      const record = await store.get(keys.binServicePause);
      const secondsLeft = record ? Math.ceil((Number(record.value) - clock()) / 1000) : 0;
      return secondsLeft > 0 ? Math.min(secondsLeft, MAX_PAUSE_SECONDS) : undefined;
    },
    async begin(seconds: number): Promise<void> {
      const until = clock() + seconds * 1000;
      await store.write([{ put: keys.binServicePause, value: String(until), lifetimeSeconds: seconds }]);
    },
  };
}
