/** Owns the BIN lookup service's HTTP interface: one BIN in the path, its record or a problem document as the answer. Past Express. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { type Bin, parseBin } from '../bin/bin.ts';
import { builtInDataset } from '../bin/built-in-dataset.ts';
import type { Dataset } from '../bin/dataset.ts';
import { AppError } from '../errors.ts';
import type { Accounts } from './accounts.ts';
import { type Admission, createAdmissions } from './admission.ts';
import { type Bans, createBans } from './bans.ts';
import { type Caller, callerAddresses } from './caller-address.ts';
import { createMemoryCounters } from './counters.ts';
import { problemDocument, type Refusal } from './problems.ts';
import { createQuota, type Quota } from './quota.ts';

/** Everything has a default, so that the sandbox has a service that counts in memory and knows no keys. */
export interface BinServiceParts {
  /** Default: the built-in data set, read anew. */
  dataset?: Dataset | undefined;
  /** Told of what went wrong in here, for a log. */
  onFailure?: ((error: unknown) => void) | undefined;
  /** Told what each look-up came to, for metrics: `dataset`, or the code of a refusal. */
  onAnswer?: ((outcome: string) => void) | undefined;
  /** Default 10,000. */
  freeMonthlyRequests?: number | undefined;
  /** Default: no key is valid. */
  accounts?: Pick<Accounts, 'accessOf'> | undefined;
  quota?: Quota | undefined;
  bans?: Bans | undefined;
  /** Default: the peer's own address. */
  callerOf?: ((req: IncomingMessage) => Caller) | undefined;
  /** Of `PUBLIC_URL`, without a slash at its end. */
  basePath?: string | undefined;
  /** Answers what is no look-up; `isPage` says which paths those are, without the base path. */
  pages?: { isPage: (path: string, req: IncomingMessage) => boolean; listener: RequestListener } | undefined;
}

export const FREE_MONTHLY_REQUESTS = 10_000;
export const BAN_DEFAULTS = { refusals: 1_000, seconds: 3_600 };

interface Answer {
  status: number;
  id: string;
  outcome: string;
  headers: string[];
  body: string;
}

/** Those of every answer. Nothing here is a page. */
const FIXED_HEADERS = [
  ...['Cache-Control', 'no-store'],
  ...['Content-Security-Policy', "default-src 'none'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"],
  ...['Referrer-Policy', 'same-origin'],
  ...['X-Content-Type-Options', 'nosniff'],
];

/**
 * Answers `GET /{bin}` with the record as JSON, how many digits matched and the data's date in `Gatehouse-Digits-Matched`
 * and `Gatehouse-As-Of`; everything else with a problem document: 400 `invalid_bin` or `invalid_request`, 401
 * `api_key_invalid`, 403 `not_allowed`, 404 `bin_not_found` or `not_found`, 405, 429 `bin_quota_exhausted`, 503.
 */
export function createBinService(parts: BinServiceParts = {}): RequestListener {
  const { dataset = builtInDataset(), onFailure, basePath = '', pages } = parts;
  const { admit } = createAdmissions(admissionParts(parts));
  const asOf = ['Gatehouse-As-Of', dataset.asOf];

  const send = (req: IncomingMessage, res: ServerResponse, answer: Answer) => {
    const { status, id, outcome, headers, body } = answer;
    const length = String(Buffer.byteLength(body));
    res.writeHead(status, ['X-Request-Id', id, 'Content-Length', length, ...FIXED_HEADERS, ...headers]);
    res.end(req.method === 'HEAD' ? undefined : body);
    parts.onAnswer?.(outcome);
  };

  const refuse = (req: IncomingMessage, res: ServerResponse, refusal: Refusal, more: readonly string[] = []) => {
    const id = randomUUID();
    const { status, body } = problemDocument(refusal, id);
    const type = ['Content-Type', 'application/problem+json; charset=utf-8'];
    const headers = [...type, ...more, ...Object.entries(refusal.headers ?? {}).flat()];
    send(req, res, { status, id, outcome: refusal.code, headers, body });
  };

  const fail = (req: IncomingMessage, res: ServerResponse, error: unknown) => {
    if (error instanceof AppError && error.code === 'storage_unavailable')
      return refuse(req, res, { code: 'storage_unavailable', headers: { 'Retry-After': RETRY_SECONDS } });
    onFailure?.(error);
    return res.headersSent ? void res.destroy() : refuse(req, res, { code: 'internal' });
  };

  const answer = (req: IncomingMessage, res: ServerResponse, bin: Bin, { refusal, headers }: Admission) => {
    if (refusal) return refuse(req, res, refusal, headers);
    const hit = dataset.find(bin);
    if (!hit) return refuse(req, res, { code: 'bin_not_found' }, headers);
    const matched = ['Gatehouse-Digits-Matched', String(hit.digitsMatched)];
    const all = ['Content-Type', 'application/json; charset=utf-8', ...matched, ...asOf, ...headers];
    const facts = { status: 200, id: randomUUID(), outcome: 'dataset' };
    return send(req, res, { ...facts, headers: all, body: JSON.stringify(hit.record) });
  };

  const lookUp = (req: IncomingMessage, res: ServerResponse, bin: Bin, query: string) => {
    const admission = admit(req, query);
    if ('then' in admission)
      return void admission.then((later) => answer(req, res, bin, later)).catch((error) => fail(req, res, error));
    return answer(req, res, bin, admission);
  };

  return (req, res) => {
    try {
      const { path, query } = splitTarget(req.url ?? '');
      const own = path.startsWith(basePath) ? path.slice(basePath.length) : '';
      if (pages?.isPage(own, req)) return pages.listener(req, res);
      const asked = readBin(own);
      if (asked === 'not_found') return refuse(req, res, { code: asked });
      if (req.method !== 'GET' && req.method !== 'HEAD')
        return refuse(req, res, { code: 'method_not_allowed', headers: { Allow: 'GET, HEAD' } });
      if (asked.problem) return refuse(req, res, { code: asked.problem });
      return lookUp(req, res, asked.bin, query);
    } catch (error) {
      return fail(req, res, error);
    }
  };
}

const RETRY_SECONDS = '2';

function admissionParts(parts: BinServiceParts) {
  const clock = Date.now;
  const counters = createMemoryCounters(clock);
  return {
    accounts: parts.accounts,
    freeMonthlyRequests: parts.freeMonthlyRequests ?? FREE_MONTHLY_REQUESTS,
    callerOf: parts.callerOf ?? callerAddresses([]),
    quota: parts.quota ?? createQuota({ counters, clock }),
    bans: parts.bans ?? createBans({ counters, ...BAN_DEFAULTS, clock }),
  };
}

/** A request line may hold a whole URL (RFC 9112 section 3.2.2), of which only path and query are ours. */
function splitTarget(target: string): { path: string; query: string } {
  if (!target.startsWith('/')) {
    const url = URL.parse(target);
    return { path: url?.pathname ?? '', query: url?.search.slice(1) ?? '' };
  }
  const end = target.indexOf('?');
  return end < 0 ? { path: target, query: '' } : { path: target.slice(0, end), query: target.slice(end + 1) };
}

/** One segment is meant as a BIN, whatever it holds; anything else is another address. */
function readBin(path: string): ReturnType<typeof parseBin> | 'not_found' {
  const segment = path.startsWith('/') ? path.slice(1).replace(/\/$/, '') : '';
  if (segment === '' || segment.includes('/')) return 'not_found';
  if (!segment.includes('%')) return parseBin(segment);
  try {
    return parseBin(decodeURIComponent(segment));
  } catch {
    return { problem: 'invalid_bin' };
  }
}
