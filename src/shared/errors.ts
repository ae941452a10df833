/** The errors that modules share: AppError is for callers, StartRefused for operators. */
import type { InputFault } from './config/input-faults.ts';

/** Every problem code of the HTTP interface with its `status` and `title` (RFC 9457). The member `code` is our own. */
export const PROBLEMS = {
  sign_in_required: { status: 401, title: 'Sign in first' },
  relay_token_invalid: { status: 401, title: 'The relay token is not valid' },
  insufficient_scope: { status: 403, title: 'The token does not cover this' },
  csrf_failed: { status: 403, title: 'This request could not be matched to your session' },
  not_allowed: { status: 403, title: 'Not allowed' },
  step_up_required: { status: 403, title: 'A stronger sign-in is needed' },
  not_connected: { status: 403, title: 'Not connected yet' },
  reconnect_needed: { status: 403, title: 'Reconnect needed' },
  scopes_missing: { status: 403, title: 'The connection lacks a scope for this' },
  invalid_bin: { status: 400, title: 'Not a BIN' },
  bin_not_found: { status: 404, title: 'Nothing is known about this BIN' },
  bin_quota_exhausted: { status: 429, title: 'The BIN lookups are used up' },
  bin_service_unavailable: { status: 503, title: 'The BIN lookup service cannot be reached' },
  platform_rate_limited: { status: 429, title: 'The platform limits the number of calls' },
  platform_error: { status: 502, title: 'The platform did not respond properly' },
  platform_timeout: { status: 504, title: 'The platform took too long to respond' },
  app_misconfigured: { status: 500, title: 'The connected app is not set up correctly' },
  provider_error: { status: 502, title: 'The sign-in at the identity provider failed' },
  provider_unavailable: { status: 503, title: 'The identity provider is not available' },
  storage_unavailable: { status: 503, title: 'The storage cannot be reached' },
  rate_limited: { status: 429, title: 'Too many requests' },
  invalid_request: { status: 400, title: 'The request is not valid' },
  not_found: { status: 404, title: 'Not found' },
  method_not_allowed: { status: 405, title: 'This method is not allowed here' },
  length_required: { status: 411, title: 'The request needs a Content-Length' },
  version_conflict: { status: 409, title: 'This has been changed in the meantime' },
  unsupported_media_type: { status: 415, title: 'The body is of a type that is not accepted here' },
  too_large: { status: 413, title: 'The request is too large' },
  not_prefetched: { status: 503, title: 'This address is not loaded ahead of a visit' },
  overloaded: { status: 503, title: 'Too many requests at the moment' },
  starting: { status: 503, title: 'The program has not started yet' },
  internal: { status: 500, title: 'Something went wrong here' },
} as const;

export type ProblemCode = keyof typeof PROBLEMS;

/** Who can help; error pages show it. The last three are the operators of other systems. */
export type Helper = 'you' | 'administrator' | 'provider' | 'platform' | 'bin_service';

/** The heading of an error page, and a sentence that says what to do. */
export interface PageWords {
  title?: string;
  advice?: string;
}

/** The connected app of an outgoing call, and its host (with the port, unless it is the default). */
export interface FailedCall {
  app: string;
  host?: string | undefined;
}

export interface AppErrorOptions {
  /** One sentence for the caller that says what to do. Contains no secret, token, digits or internal text. */
  detail?: string | undefined;
  /** The detail for the log, which no response contains. */
  logDetail?: string | undefined;
  cause?: unknown;
  /** Whole seconds until a retry makes sense. They become `Retry-After`. */
  retryAfterSeconds?: number | undefined;
  /** The URL at which the user connects or reconnects. It becomes `connectUrl`. */
  connectUrl?: string | undefined;
  /** Who can help, in place of the one that the code implies. */
  helper?: Helper | undefined;
  /** Texts for pages, in place of those of the code if they would mislead. */
  words?: PageWords | undefined;
  /** The button of the error page, in place of the code's. `isForm`: a POST with the CSRF token. */
  action?:
    | { label: string; url: string; isForm?: boolean; alternative?: { label: string; url: string } | undefined }
    | undefined;
  /** The faults of the input, each with its pointer. They become `errors`. */
  faults?: readonly InputFault[] | undefined;
  /** The reference of an earlier response with this failure, which is shown again. */
  reference?: string | undefined;
  /** The outgoing call that failed, for the log. */
  call?: FailedCall | undefined;
  /** Extra response headers, such as `WWW-Authenticate`, `Allow` or `Proxy-Status`. */
  headers?: Record<string, string> | undefined;
}

/** An error that becomes a problem response. Errors are distinguished by `code`, never by text. */
export class AppError extends Error {
  readonly code: ProblemCode;
  readonly status: number;
  readonly detail: string | undefined;
  readonly logDetail: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly connectUrl: string | undefined;
  readonly helper: Helper | undefined;
  readonly words: PageWords;
  readonly action: AppErrorOptions['action'];
  readonly faults: readonly InputFault[] | undefined;
  readonly reference: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  call: FailedCall | undefined;

  constructor(code: ProblemCode, options: AppErrorOptions = {}) {
    super(options.logDetail ?? options.detail ?? PROBLEMS[code].title, { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.status = PROBLEMS[code].status;
    this.detail = options.detail;
    this.logDetail = options.logDetail;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.connectUrl = options.connectUrl;
    this.helper = options.helper;
    this.words = options.words ?? {};
    this.action = options.action;
    this.faults = options.faults;
    this.reference = options.reference;
    this.headers = options.headers ?? {};
    this.call = options.call;
  }
}

/** The exit status for StartRefused: a configuration error (`sysexits.h`). */
export const EX_CONFIG = 78;

/** The error of a start that cannot use the settings, or the files or the storage that they name. */
export class StartRefused extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[], options?: ErrorOptions) {
    super(faults.join('\n'), options);
    this.name = 'StartRefused';
    this.faults = faults;
  }
}

/** Returns the code of a system error, such as `EADDRINUSE`. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/**
 * Returns the text of an error for a terminal: our own text, or else the name, the code and a stack frame. Messages of
 * Node and libraries may repeat data, such as a cell that cannot be parsed.
 */
export function failureText(error: unknown): string {
  if (error instanceof AppError) return error.detail ?? error.message;
  if (error instanceof StartRefused) return error.message;
  if (!(error instanceof Error)) return 'an unexpected failure';
  const code = codeOf(error);
  const [frame] = framesOf(error);
  return `an unexpected ${error.name}${code === undefined ? '' : ` (${code})`}${frame === undefined ? '' : `, ${frame}`}`;
}

/** Returns the frames of the stack. The message is removed first, because its lines may look like frames. */
export function framesOf({ stack = '', message }: Error): string[] {
  const start = stack.indexOf(message);
  const frames = start < 0 ? '' : stack.slice(start + message.length);
  return frames
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .map((line) => line.trim());
}

/** Removes the arguments from an error of commander, except texts that look like names of commands and options. */
export function withoutArguments(text: string): string {
  return text
    .replace(/ argument '[\s\S]*' is invalid\./, ' has a value that cannot be used.')
    .replace(/^(error: too many arguments[\s\S]* but got \d+): [\s\S]*\.$/m, '$1.')
    .replace(/^(error: unknown (?:option|command)) '([\s\S]*?)'$/m, (_all, text: string, name: string) =>
      /^[a-z-]{1,30}$/.test(name) ? `${text} '${name}'` : text,
    );
}
