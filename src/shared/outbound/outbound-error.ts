/** Explains to administrators why a call had no usable response. */
import { codeOf } from '../errors.ts';
import { capitalised } from '../text.ts';
import { ADDRESS_ADVICE, type AddressRule } from './address-policy.ts';
import { RefusedAddress } from './checked-lookup.ts';
import { ProxyFailure } from './dispatcher.ts';
import { UnresolvedName } from './host-names.ts';

/** `busy`: the limits of running and waiting calls to the host are reached. */
type OutboundFailure = 'address' | 'timeout' | 'connection' | 'too_large' | 'encoding' | 'busy';

/** Seconds after which a call that was refused as `busy` is worth repeating: most calls that wait are made by then. */
export const BUSY_RETRY_SECONDS = 2;

/** A failed call. The message is a clause that names only host and port, since the rest of the URL may hold a code. */
export class OutboundError extends Error {
  readonly reason: OutboundFailure;
  /** Says what an administrator can do. */
  readonly advice: string | undefined;
  /** False if no byte of the request was sent. */
  readonly sent: boolean;
  constructor(
    reason: OutboundFailure,
    message: string,
    advice?: string,
    options: ErrorOptions & { sent?: boolean } = {},
  ) {
    super(message, options);
    this.name = 'OutboundError';
    this.reason = reason;
    this.advice = advice;
    this.sent = options.sent ?? (reason !== 'address' && reason !== 'busy');
  }
}

/** `stopped`: the caller of Gatehouse has disconnected. */
export type CallFailure = OutboundFailure | 'stopped';

/**
 * Classifies the failure of a call.
 * @param error the error of a streamed call, which has no deadline and which its reader can stop
 */
export function callFailure(error: Error): CallFailure {
  if (error instanceof OutboundError) return error.reason;
  if (error instanceof RefusedAddress) return 'address';
  const code = codeOf(error);
  if (code === undefined) return 'stopped';
  return isTimeout(code) ? 'timeout' : 'connection';
}

const isTimeout = (code: string) => /TIMEOUT|TIMEDOUT/.test(code);

const reachAdvice = (isProxied: boolean) =>
  `Check that this server can reach it: the firewall${isProxied ? ', and the proxy in HTTPS_PROXY' : ''}.`;

export function addressError(url: string, rule: AddressRule): OutboundError {
  const message = `the address policy refuses ${hostOf(url)} (${rule})`;
  return new OutboundError('address', message, capitalised(ADDRESS_ADVICE[rule]));
}

/**
 * @param call `aborted`: the deadline of the whole call has passed; `isProxied`: `HTTPS_PROXY` is set; `sent`: false if
 *   no byte of the request was sent
 */
export function asOutboundError(
  error: unknown,
  url: string,
  { aborted, isProxied = false, sent = true }: { aborted: boolean; isProxied?: boolean; sent?: boolean },
): OutboundError {
  if (error instanceof OutboundError) return error;
  if (error instanceof RefusedAddress) return addressError(url, error.rule);
  const options = { cause: error, sent };
  const host = hostOf(url);
  if (error instanceof UnresolvedName)
    return new OutboundError('timeout', ...nameFailure(error), { ...options, sent: false });
  const code = codeOf(error) ?? '';
  if (error instanceof ProxyFailure) {
    const [text, advice] = proxyFailure(host);
    const message = `${text}${code === '' ? '' : ` (${code})`}`;
    return new OutboundError(isTimeout(code) ? 'timeout' : 'connection', message, advice, { ...options, sent: false });
  }
  if (aborted || isTimeout(code))
    return new OutboundError('timeout', `${host} did not respond in time`, reachAdvice(isProxied), options);
  const [text, advice] = connectionFailure(host, code, isProxied);
  return new OutboundError('connection', `${text}${code === '' ? '' : ` (${code})`}`, advice, options);
}

type Failure = [text: string, advice: string];

/** The codes of OpenSSL and Node for a certificate that no known authority signed. */
const UNKNOWN_AUTHORITY_CODES: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_UNTRUSTED',
]);

function nameFailure({ hostname, isRefused }: UnresolvedName): Failure {
  return [
    isRefused
      ? `the name ${hostname} was not looked up, since it and other names are slow to resolve`
      : `the name ${hostname} was not resolved in time`,
    'Check the DNS settings of this server, and the name servers of this name.',
  ];
}

const RENEW = 'Renew it on that host. If it is valid, correct the clock of this server.';

/** @param code error code of the operating system, TLS or undici */
function connectionFailure(host: string, code: string, isProxied: boolean): Failure {
  if (UNKNOWN_AUTHORITY_CODES.has(code)) {
    return [
      `the certificate of ${host} is signed by an unknown authority`,
      'If a private authority signed it, set CA_FILE to a PEM file with its certificate, and restart.',
    ];
  }
  if (/^(ENOTFOUND|EAI_\w+)$/.test(code)) {
    return [
      `the name ${host.replace(/:\d+$/, '')} cannot be resolved`,
      `Check the name, and the DNS settings of this server.${isProxied ? ' If only the proxy in HTTPS_PROXY can resolve it, add it to INTERNAL_HOSTS.' : ''}`,
    ];
  }
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return [`the certificate of ${host} has expired`, RENEW];
    case 'CERT_NOT_YET_VALID':
      return [`the certificate of ${host} is not valid yet`, RENEW];
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return [
        `the certificate of ${host} is for another name`,
        'Use a name that the certificate covers, or issue a certificate for this name.',
      ];
    case 'ECONNRESET':
    case 'EPIPE':
    case 'UND_ERR_SOCKET':
      return [
        `${host} closed the connection before its response was complete`,
        'Check the log of that server, and of any proxy in front of it.',
      ];
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return [`there is no network route to ${host}`, reachAdvice(isProxied)];
    case 'EPROTO':
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
    case 'ERR_SSL_PACKET_LENGTH_TOO_LONG':
      return [`${host} did not respond with TLS`, 'Check the port, and that the service there uses https.'];
    case 'ECONNREFUSED':
      return [`${host} refused the connection`, 'Check the port, that the service is running, and the firewall.'];
    default:
      return [`the connection to ${host} failed`, reachAdvice(isProxied)];
  }
}

function proxyFailure(host: string): Failure {
  return [
    `the proxy in HTTPS_PROXY did not open a connection to ${host}`,
    'Check the name, port and password in HTTPS_PROXY, and that the proxy is running and allows calls to this host.',
  ];
}

/** Returns the host and port of a URL. A URL that cannot be parsed is not repeated. */
function hostOf(text: string): string {
  const url = URL.parse(text);
  if (!url) return 'a URL that cannot be read';
  return `${url.hostname}:${url.port || (url.protocol === 'http:' ? '80' : '443')}`;
}
