/**
 * The HTTP API of the BIN lookup service, without Express for speed: `GET /{bin}` returns a record or a problem
 * document.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { builtInDataset } from '../shared/bin/built-in-dataset.ts';
import type { Dataset } from '../shared/bin/dataset.ts';
import { type DatasetSources, findInDataset, findLocalFacts } from '../shared/bin/local-facts.ts';
import { recordHeaders, withAge } from '../shared/bin/lookup-result.ts';
import { type Bin, type ParsedBin, parseBin } from '../shared/bin/parse-bin.ts';
import { AppError } from '../shared/errors.ts';
import { type ClientAddress, clientAddress } from '../shared/http/client-address.ts';
import { PROBLEM_TYPE } from '../shared/http/problem-document.ts';
import type { RateLimits } from '../shared/http/rate-limit.ts';
import { securityHeaders } from '../shared/http/security-headers.ts';
import type { Accounts } from './accounts.ts';
import { type Admission, createAdmissions } from './admission.ts';
import { type Bans, createBans } from './bans.ts';
import { createMemoryCounters } from './counters.ts';
import type { FreeTier } from './plans.ts';
import { problemDocument, type Refusal } from './problems.ts';
import { createQuota, type Quota } from './quota.ts';

/** The parts of the service. With the defaults, which are for the sandbox, it counts in memory and has no API keys. */
export interface BinServiceParts {
  /** Default: only the built-in data set. */
  datasets?: DatasetSources | undefined;
  /** A data set for BINs that the others lack. Its facts are marked `Gatehouse-Test-Data`. */
  testData?: Dataset | undefined;
  /** Called with each internal error and the id of the request, to log them. */
  onFailure?: ((error: unknown, requestId: string) => void) | undefined;
  /** Called for each other refusal, to log it. */
  onRefused?: ((refused: { requestId: string; code: string; status: number }) => void) | undefined;
  /** Called after each response, for metrics: `dataset`, `rules`, or the code of a refusal. */
  onResponse?: ((outcome: string) => void) | undefined;
  /** The limits of callers without a key. Default: 10,000 requests a month. */
  free?: FreeTier | undefined;
  /** Default: no key is valid. */
  accounts?: Pick<Accounts, 'accessOf'> | undefined;
  quota?: Quota | undefined;
  bans?: Bans | undefined;
  /** Default: no limit a minute. */
  limits?: Pick<RateLimits, 'take'> | undefined;
  /** Returns the address of the caller. Default: the address of the peer. */
  addressOf?: ClientAddress | undefined;
  /** The path of `PUBLIC_URL`, without a final slash. */
  basePath?: string | undefined;
  /** `PUBLIC_URL`; default: http. */
  publicHref?: string | undefined;
  /** The URL of the account page, for refusals. Default: none, because users cannot register. */
  accountUrl?: string | undefined;
  /** Handles pages. `isPage` is called with the path without the base path. */
  pages?: { isPage: (path: string, req: IncomingMessage) => boolean; listener: RequestListener } | undefined;
}

export const FREE_MONTHLY_REQUESTS = 10_000;
export const FREE_REQUESTS_PER_MINUTE = 12_000;
export const BAN_DEFAULTS = { refusals: 1_000, seconds: 3_600 };

interface LookupResponse {
  status: number;
  id: string;
  outcome: string;
  headers: string[];
  body: string;
}

/**
 * Responds to `GET /{bin}` with the record as JSON, and with headers that name its source. All other requests get
 * a problem document: 400 `invalid_bin` or `invalid_request`, 401 `api_key_invalid`, 403 `not_allowed`, 404
 * `bin_not_found` or `not_found`, 405, 429 `bin_quota_exhausted`, 503.
 */
export function createBinService(parts: BinServiceParts = {}): RequestListener {
  const { datasets = [builtInDataset], onFailure, basePath = '', pages } = parts;
  const { admit } = createAdmissions(admissionParts(parts));
  const fixedHeaders = [...securityHeaders(parts.publicHref ?? 'http://localhost')].flat();

  const send = (req: IncomingMessage, res: ServerResponse, response: LookupResponse) => {
    const { status, id, outcome, headers, body } = response;
    const length = String(Buffer.byteLength(body));
    res.writeHead(status, ['X-Request-Id', id, 'Content-Length', length, ...fixedHeaders, ...headers]);
    res.end(req.method === 'HEAD' ? undefined : body);
    parts.onResponse?.(outcome);
  };

  const refuse = (
    req: IncomingMessage,
    res: ServerResponse,
    refusal: Refusal,
    extraHeaders: readonly string[] = [],
    id: string = randomUUID(),
  ) => {
    const { code } = refusal;
    const { status, body } = problemDocument(refusal, id, parts.accountUrl);
    const type = ['Content-Type', `${PROBLEM_TYPE}; charset=utf-8`];
    const headers = [...type, ...extraHeaders, ...Object.entries(refusal.headers ?? {}).flat()];
    send(req, res, { status, id, outcome: code, headers, body });
    if (code !== 'internal') parts.onRefused?.({ requestId: id, code, status });
  };

  const fail = (req: IncomingMessage, res: ServerResponse, error: unknown) => {
    if (error instanceof AppError && error.code === 'storage_unavailable')
      return refuse(req, res, { code: 'storage_unavailable', headers: { 'Retry-After': RETRY_SECONDS } });
    const id = randomUUID();
    onFailure?.(error, id);
    return res.headersSent ? void res.destroy() : refuse(req, res, { code: 'internal' }, [], id);
  };

  const respond = (req: IncomingMessage, res: ServerResponse, bin: Bin, { refusal, headers }: Admission) => {
    if (refusal) return refuse(req, res, refusal, headers);
    const local = findLocalFacts(bin, datasets);
    const testCard = local?.source === 'dataset' ? undefined : findInDataset(bin, parts.testData);
    const result = testCard ? { ...testCard, testData: true as const } : local;
    if (!result) return refuse(req, res, { code: 'bin_not_found' }, headers);
    const sourceHeaders = Object.entries(recordHeaders(withAge(result, Date.now()))).flat();
    const allHeaders = ['Content-Type', 'application/json; charset=utf-8', ...sourceHeaders, ...headers];
    const success = { status: 200, id: randomUUID(), outcome: result.source };
    return send(req, res, { ...success, headers: allHeaders, body: JSON.stringify(result.record) });
  };

  const lookUp = (req: IncomingMessage, res: ServerResponse, bin: Bin, query: string) => {
    const admission = admit(req, query);
    if ('then' in admission)
      return void admission
        .then((resolved) => respond(req, res, bin, resolved))
        .catch((error) => fail(req, res, error));
    return respond(req, res, bin, admission);
  };

  return (req, res) => {
    try {
      const { path, query } = splitTarget(req.url ?? '');
      const localPath = path.startsWith(basePath) ? path.slice(basePath.length) : '';
      if (pages?.isPage(localPath, req)) return pages.listener(req, res);
      const parsed = readBin(localPath);
      if (parsed === 'not_found') return refuse(req, res, { code: parsed });
      if (req.method !== 'GET' && req.method !== 'HEAD')
        return refuse(req, res, { code: 'method_not_allowed', headers: { Allow: 'GET, HEAD' } });
      if (parsed.problem) return refuse(req, res, { code: parsed.problem });
      return lookUp(req, res, parsed.bin, query);
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
    free: parts.free ?? { monthlyRequests: FREE_MONTHLY_REQUESTS },
    limits: parts.limits ?? { take: () => 0 },
    addressOf: parts.addressOf ?? clientAddress([]),
    quota: parts.quota ?? createQuota({ counters, clock }),
    bans: parts.bans ?? createBans({ counters, ...BAN_DEFAULTS, clock }),
  };
}

/** Splits the request target, which may be an absolute URL (RFC 9112 section 3.2.2). */
function splitTarget(target: string): { path: string; query: string } {
  if (!target.startsWith('/')) {
    const url = URL.parse(target);
    return { path: url?.pathname ?? '', query: url?.search.slice(1) ?? '' };
  }
  const end = target.indexOf('?');
  return end < 0 ? { path: target, query: '' } : { path: target.slice(0, end), query: target.slice(end + 1) };
}

/** Parses the BIN of a path with one segment. */
function readBin(path: string): ParsedBin | 'not_found' {
  const segment = path.startsWith('/') ? path.slice(1).replace(/\/$/, '') : '';
  if (segment === '' || segment.includes('/')) return 'not_found';
  if (!segment.includes('%')) return parseBin(segment);
  try {
    return parseBin(decodeURIComponent(segment));
  } catch {
    return { problem: 'invalid_bin' };
  }
}
