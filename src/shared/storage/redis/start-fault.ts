/** Explains why a start cannot connect to Redis, with the address, the setting that names it, and the cause. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { codeOf } from '../../errors.ts';
import { StorageRefused } from '../refused.ts';
import { unavailable } from '../unavailable.ts';
import { type ClientParts, createNodeClient } from './clients.ts';
import { withDeadline } from './deadlines.ts';
import { isClusterError } from './faults.ts';
import { deniedWords, isDenied } from './permissions.ts';
import { hostsOf, type RedisAddress } from './target.ts';

const SETTINGS = { single: 'REDIS_URL', cluster: 'REDIS_CLUSTER', sentinel: 'REDIS_SENTINELS' } as const;
/** The beginning of ioredis' error for sentinels, before the last error of one of them. */
const SENTINEL_ERROR = 'All sentinels are unreachable';
/** The time limit for the first packet and the response: the maximum of `REDIS_TIMEOUT_MS`. */
const MAX_RESPONSE_MS = 6_000;
const CLIENT_CERTIFICATE = 'Set REDIS_CERT_FILE and REDIS_KEY_FILE to a certificate that it accepts.';

/** Returns the error to throw: `StorageRefused` if the settings are wrong, otherwise `storage_unavailable`. */
export async function startFault(parts: Omit<ClientParts, 'random'>, error: unknown): Promise<Error> {
  const { location, deadlineMilliseconds } = parts;
  const { code, text } = codeAndText(error);
  const setting = SETTINGS[location.kind];
  const name = `Redis at ${hostsOf(location)} (${setting})`;
  const refuse = (reason: string) => new StorageRefused(`${name} ${reason}`, error);

  const isSentinel = text.startsWith(SENTINEL_ERROR);
  const denied = /\bNOPERM .*/.exec(text)?.[0];
  if (denied) {
    const user = isSentinel ? 'the user in REDIS_SENTINEL_USERNAME' : 'its user';
    return refuse(`does not allow ${user} ${deniedWords(new Error(denied))}. docs/deploy.md lists the permissions.`);
  }
  const credentialsCode = /\b(WRONGPASS|NOAUTH)\b/.exec(text)?.[1];
  if (credentialsCode) {
    const settings = isSentinel
      ? 'REDIS_SENTINEL_PASSWORD, and in REDIS_SENTINEL_USERNAME if the sentinels have users'
      : setting;
    return refuse(`refuses the user or the password (${credentialsCode}). Correct them in ${settings}.`);
  }
  const deniedCommand = isUnreached(code) ? undefined : await clusterInfoDenial(parts);
  if (deniedCommand)
    return refuse(`does not allow its user ${deniedWords(deniedCommand)}. docs/deploy.md lists the permissions.`);
  const certificate = isUnreached(code) ? undefined : certificateFault((await tlsFault(parts)) ?? code);
  if (certificate) return refuse(certificate);
  if (text.includes('cluster support disabled')) return refuse('is not a cluster. Set REDIS_URL instead.');
  if (/unknown command .sentinel/i.test(text))
    return refuse('is not a sentinel. Set REDIS_URL or REDIS_CLUSTER instead.');
  if (text.includes('No such master')) return refuse('has no master with that name. Correct REDIS_SENTINEL_NAME.');
  if (text.startsWith('DENIED'))
    return refuse('is in protected mode and accepts only connections from its own machine. Give its users a password.');
  if (isWrongDatabase(error)) return refuse(`has no database with that number. Correct ${setting}.`);
  const isSecure = location.credentials.tls !== undefined;
  const responses = async (secure: boolean, milliseconds: number) =>
    (await Promise.all(location.addresses.map((address) => firstResponse(address, secure, milliseconds)))).join('');
  if (!isUnreached(code) && (await responses(!isSecure, deadlineMilliseconds)) !== '') {
    return refuse(isSecure ? 'does not speak TLS. Write redis:// instead.' : 'speaks TLS. Write rediss:// instead.');
  }
  const response = isUnreached(code) ? '' : await responses(isSecure, MAX_RESPONSE_MS);
  if (response.includes('-LOADING')) return unavailable(`${name} is still loading its data`, { cause: error });
  if (response.includes('-ERR max number of clients'))
    return unavailable(`${name} has as many clients as its maxclients allows`, { cause: error });
  if (response !== '')
    return unavailable(`${name} responded too slowly. Set a longer REDIS_TIMEOUT_MS than ${deadlineMilliseconds}`, {
      cause: error,
    });
  return unavailable(`${name} cannot be reached: ${code ?? 'no response'}`, { cause: error });
}

/**
 * Returns the refusal of `CLUSTER INFO`, after which ioredis connects again and again without an error. Undefined if it
 * is allowed, or if the target is no cluster.
 */
async function clusterInfoDenial(parts: Omit<ClientParts, 'random'>): Promise<Error | undefined> {
  const { location, deadlineMilliseconds } = parts;
  const [address] = location.addresses;
  if (location.kind !== 'cluster' || !address) return undefined;
  const node = createNodeClient({ ...parts, random: () => 0 }, address);
  const ask = async () => {
    await once(node, 'ready');
    await node.cluster('INFO');
  };
  try {
    await withDeadline(ask(), deadlineMilliseconds);
    return undefined;
  } catch (error) {
    return isDenied(error) ? error : undefined;
  } finally {
    node.disconnect();
  }
}

/** Returns true for the response to `SELECT` with a database number that does not exist, or that is not allowed. */
export function isRefusedSelect(error: unknown): boolean {
  return isWrongDatabase(error) || isDenied(error);
}

function isWrongDatabase(error: unknown): boolean {
  return codeAndText(error).text.includes('DB index is out of range');
}

/**
 * Returns the code and text of an error. ioredis reports the cause only as text, and for a cluster in the error of its
 * last node.
 */
function codeAndText(error: unknown): { code: string | undefined; text: string } {
  if (!(error instanceof Error)) return { code: undefined, text: '' };
  if (isClusterError(error)) return codeAndText(error.lastNodeError);
  return { code: 'code' in error ? String(error.code) : undefined, text: error.message };
}

/**
 * Describes a fault of either side's certificate, as the end of a sentence.
 * @param code error code of OpenSSL or Node
 */
function certificateFault(code: string | undefined): string | undefined {
  if (code === undefined || !/CERT|UNABLE_TO_|SELF_SIGNED|_ALERT_/.test(code)) return undefined;
  if (code.includes('ALERT_CERTIFICATE_REQUIRED'))
    return `requires a client certificate (${code}). ${CLIENT_CERTIFICATE}`;
  if (code.includes('_ALERT_')) return `refuses TLS with this client certificate (${code}). ${CLIENT_CERTIFICATE}`;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `has a certificate for another name (${code}). Use the host name in the certificate.`;
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID')
    return `has a certificate that is not valid now (${code}). Renew it, or correct the clock of this server.`;
  return `has a certificate from an unknown authority (${code}). Set CA_FILE to a PEM file with the certificate of that authority.`;
}

/**
 * Returns the code with which TLS to one of the addresses fails; undefined without TLS. ioredis reports no code for a
 * sentinel, and only a broken connection if the server refuses the client certificate.
 */
async function tlsFault({ location, deadlineMilliseconds }: Omit<ClientParts, 'random'>): Promise<string | undefined> {
  const { addresses } = location;
  const { tls } = location.credentials;
  if (!tls) return undefined;
  const codes = await Promise.all(
    addresses.map((address) => handshakeFault({ ...tls, ...address }, deadlineMilliseconds)),
  );
  return codes.find((code) => code !== undefined);
}

/**
 * Returns the code with which a TLS handshake fails. Sends no data, because data that the server does not read would
 * turn its alert into a reset.
 */
function handshakeFault(options: ConnectionOptions, milliseconds: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connectTls(options).resume();
    const end = (code?: string) => {
      socket.destroy();
      resolve(code);
    };
    socket.setTimeout(milliseconds, end);
    socket.on('error', (error) => end(codeOf(error)));
    socket.on('close', () => end());
  });
}

function isUnreached(code: string | undefined): boolean {
  return code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'EAI_AGAIN';
}

/**
 * Returns the response to a `PING`, or an empty text if Redis does not respond in time. Sends no credentials, because
 * the server may not be a Redis.
 */
function firstResponse({ host, port }: RedisAddress, isSecure: boolean, milliseconds: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = isSecure ? connectTls({ host, port, rejectUnauthorized: false }) : connect({ host, port });
    const end = (response = '') => {
      socket.destroy();
      resolve(/^[+-]/.test(response) ? response : '');
    };
    socket.setTimeout(milliseconds, () => end());
    socket.on('error', () => end());
    socket.on('data', (bytes) => end(bytes.toString('latin1')));
    socket.write('PING\r\n');
  });
}
