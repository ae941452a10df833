/** Owns the one error type that leaves a room: a code, its status, a public sentence and a detail for the log alone. */
import type { InputFault } from './input-faults.ts';

/** Every problem code of the HTTP interface with its status and title (RFC 9457 `code`, `status`, `title`). */
export const PROBLEMS = {
  sign_in_required: { status: 401, title: 'Sign in first' },
  relay_token_invalid: { status: 401, title: 'The relay token is not valid' },
  insufficient_scope: { status: 403, title: 'The token lacks the scope for this' },
  csrf_failed: { status: 403, title: 'This request could not be matched to your session' },
  not_allowed: { status: 403, title: 'Not allowed' },
  step_up_required: { status: 403, title: 'A stronger sign-in is needed' },
  not_connected: { status: 403, title: 'Not connected yet' },
  reconnect_needed: { status: 403, title: 'The connection has ended and must be made again' },
  invalid_bin: { status: 400, title: 'Not a BIN' },
  bin_not_found: { status: 404, title: 'Nothing is known about this BIN' },
  bin_quota_exhausted: { status: 429, title: 'The monthly BIN look-ups are used up' },
  bin_service_unavailable: { status: 503, title: 'The BIN lookup service cannot be reached' },
  upstream_rate_limited: { status: 429, title: 'The platform limits the number of calls' },
  upstream_error: { status: 502, title: 'The platform did not answer properly' },
  upstream_timeout: { status: 504, title: 'The platform took too long to answer' },
  provider_unavailable: { status: 503, title: 'The identity provider cannot be reached' },
  storage_unavailable: { status: 503, title: 'The storage cannot be reached' },
  rate_limited: { status: 429, title: 'Too many requests' },
  invalid_request: { status: 400, title: 'The request is not valid' },
  not_found: { status: 404, title: 'Nothing is here' },
  method_not_allowed: { status: 405, title: 'This method is not allowed here' },
  length_required: { status: 411, title: 'The request needs a Content-Length' },
  version_conflict: { status: 409, title: 'Somebody else changed this in the meantime' },
  too_large: { status: 413, title: 'The request is too large' },
  overloaded: { status: 503, title: 'Too much is going on here' },
  internal: { status: 500, title: 'Something went wrong here' },
} as const;

export type ProblemCode = keyof typeof PROBLEMS;

/** Who has to act, as pages say it. */
export type WhoseFault = 'yours' | 'ours' | 'provider' | 'platform' | 'bin_service' | 'nobody';

/** A heading, and a sentence on what to do now. */
export interface PageWords {
  title?: string;
  nextStep?: string;
}

export interface AppErrorOptions {
  /** One sentence that the caller may read: says what to do, holds no secret, token, digit string or internal text. */
  detail?: string;
  /** For the log alone; never in an answer. */
  logDetail?: string;
  cause?: unknown;
  /** Whole seconds after which trying again makes sense: becomes `Retry-After`. */
  retryAfterSeconds?: number;
  /** Where the person connects or reconnects: becomes `connectUrl`. */
  connectUrl?: string;
  /** Where the code alone would blame the wrong one. */
  whose?: WhoseFault;
  /** For pages, where the code's own words would mislead. */
  words?: PageWords | undefined;
  /** The one next step that a page offers, where the code's own would not help. */
  step?: { label: string; url: string };
  /** What is wrong with what was sent, place by place: becomes `errors`. */
  faults?: readonly InputFault[];
  /** Extra response headers, such as `WWW-Authenticate`, `Allow` or `Proxy-Status`. */
  headers?: Record<string, string>;
}

/** The error that faces turn into an answer. Told apart by `code`, never by text. */
export class AppError extends Error {
  readonly code: ProblemCode;
  readonly status: number;
  readonly detail: string | undefined;
  readonly logDetail: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly connectUrl: string | undefined;
  readonly whose: WhoseFault | undefined;
  readonly words: PageWords;
  readonly step: { label: string; url: string } | undefined;
  readonly faults: readonly InputFault[] | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ProblemCode, options: AppErrorOptions = {}) {
    super(options.logDetail ?? options.detail ?? PROBLEMS[code].title, { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.status = PROBLEMS[code].status;
    this.detail = options.detail;
    this.logDetail = options.logDetail;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.connectUrl = options.connectUrl;
    this.whose = options.whose;
    this.words = options.words ?? {};
    this.step = options.step;
    this.faults = options.faults;
    this.headers = options.headers ?? {};
  }
}
