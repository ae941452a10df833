/** Why a call brought no response, in words for administrators. They name host and port, never the rest of the URL. */
import { ADDRESS_ADVICE, type AddressRule } from './address-policy.ts';

export interface CallFailure {
  /** A clause without a full stop. */
  words: string;
  advice: string;
}

const REACH = 'Check that this server can reach it: the firewall, and the proxy in HTTPS_PROXY where there is one.';
const UNRESOLVED =
  'Check the name, and the DNS of this server. Where the proxy in HTTPS_PROXY alone can resolve it, name it in INTERNAL_HOSTS.';
const UNKNOWN_AUTHORITY =
  'If a private authority signed it, set NODE_EXTRA_CA_CERTS to the file with its certificate in the environment of the process (a line in .env comes too late) and restart.';

/** The codes of OpenSSL and Node for a certificate that no known authority vouches for. */
const UNKNOWN_AUTHORITY_CODES: ReadonlySet<string> = new Set([
  ...['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_GET_ISSUER_CERT'],
  ...['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'CERT_UNTRUSTED'],
]);

/** @param code the code of the error that the system, TLS or undici reported */
export function connectionFailure(url: string, code: string): CallFailure {
  const host = hostOf(url);
  const certificate = `the certificate of ${host}`;
  if (UNKNOWN_AUTHORITY_CODES.has(code))
    return { words: `${certificate} is signed by an unknown authority (${code})`, advice: UNKNOWN_AUTHORITY };
  if (/^(ENOTFOUND|EAI_\w+)$/.test(code))
    return { words: `the name of ${host} cannot be resolved (${code})`, advice: UNRESOLVED };
  switch (code) {
    case 'CERT_HAS_EXPIRED':
    case 'CERT_NOT_YET_VALID':
      return {
        words: `${certificate} ${code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet'} (${code})`,
        advice: 'Have it renewed there. If it is valid, set the clock of this server.',
      };
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return {
        words: `${certificate} is for another name (${code})`,
        advice: 'Use the name that it is for, or have one issued for this name.',
      };
    case 'ECONNREFUSED':
      return {
        words: `${host} refused the connection (${code})`,
        advice: 'Check the port, whether the service runs, and the firewall.',
      };
    default:
      return { words: `the connection to ${host} failed${code === '' ? '' : ` (${code})`}`, advice: REACH };
  }
}

export function proxyFailure(url: string, code: string): CallFailure {
  return {
    words: `the proxy in HTTPS_PROXY opened no connection to ${hostOf(url)} (${code})`,
    advice: 'Check the name, port and password in HTTPS_PROXY, and that the proxy runs and allows calls to this host.',
  };
}

export function timeoutFailure(url: string): CallFailure {
  return { words: `${hostOf(url)} did not respond in time`, advice: REACH };
}

export function addressFailure(url: string, rule: AddressRule): CallFailure {
  const advice = ADDRESS_ADVICE[rule];
  return {
    words: `the address policy refuses ${hostOf(url)} (${rule})`,
    advice: advice.charAt(0).toUpperCase() + advice.slice(1),
  };
}

/** Host and port. A URL that cannot be read is not repeated. */
function hostOf(text: string): string {
  const url = URL.parse(text);
  if (!url) return 'a URL that cannot be read';
  return `${url.hostname}:${url.port || (url.protocol === 'http:' ? '80' : '443')}`;
}
