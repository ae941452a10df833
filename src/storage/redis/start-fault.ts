/** Explains why there is no connection to Redis at the start: the address, the setting that names it, and the cause. */
import { connect } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { codeOf } from '../../errors.ts';
import { StorageRefused } from '../refused.ts';
import { unavailable } from '../unavailable.ts';
import { hostsOf, type RedisAddress, type RedisPlace } from './target.ts';

const SETTINGS = { single: 'REDIS_URL', cluster: 'REDIS_CLUSTER', sentinel: 'REDIS_SENTINELS' } as const;
const PROBE_MILLISECONDS = 500;
/** How ioredis begins what it says of sentinels; what follows is the last error of one of them. */
const FROM_SENTINEL = 'All sentinels are unreachable';
const CLIENT_CERTIFICATE = 'Set REDIS_CERT_FILE and REDIS_KEY_FILE to one that it accepts.';

/** The error to throw: `StorageRefused` if the settings are wrong, otherwise `storage_unavailable`. */
export async function startFault(place: RedisPlace, error: unknown): Promise<Error> {
  const { code, text } = read(error);
  const setting = SETTINGS[place.kind];
  const name = `Redis at ${hostsOf(place)} (${setting})`;
  const refuse = (why: string) => new StorageRefused(`${name} ${why}`, error);

  const credentials = /\b(WRONGPASS|NOAUTH|NOPERM)\b/.exec(text)?.[1];
  if (credentials) {
    const isSentinel = text.startsWith(FROM_SENTINEL);
    const whose = isSentinel ? 'REDIS_SENTINEL_PASSWORD, and in REDIS_SENTINEL_USERNAME if they have users' : setting;
    return refuse(`refuses the user or the password (${credentials}). Correct them in ${whose}.`);
  }
  const certificate = isUnreached(code) ? undefined : certificateFault((await tlsFault(place)) ?? code);
  if (certificate) return refuse(certificate);
  if (text.includes('cluster support disabled')) return refuse('is not a cluster. Set REDIS_URL instead.');
  if (/unknown command .sentinel/i.test(text))
    return refuse('is not a sentinel. Set REDIS_URL or REDIS_CLUSTER instead.');
  if (text.includes('No such master')) return refuse('knows no master of that name. Correct REDIS_SENTINEL_NAME.');
  const isSecure = place.credentials.tls !== undefined;
  if (!isUnreached(code) && (await someRespond(place.addresses, !isSecure))) {
    return refuse(isSecure ? 'does not speak TLS. Write redis:// instead.' : 'speaks TLS. Write rediss:// instead.');
  }
  return unavailable(`${name} cannot be reached: ${code ?? 'no response'}`, { cause: error });
}

/** ioredis gives the cause as text, and for a cluster in the error of its last node. */
function read(error: unknown): { code: string | undefined; text: string } {
  if (!(error instanceof Error)) return { code: undefined, text: '' };
  if ('lastNodeError' in error) return read(error.lastNodeError);
  return { code: 'code' in error ? String(error.code) : undefined, text: error.message };
}

/** What is wrong with the certificate of either side, as the end of a sentence. @param code of OpenSSL or Node */
function certificateFault(code: string | undefined): string | undefined {
  if (code === undefined || !/CERT|UNABLE_TO_|SELF_SIGNED|_ALERT_/.test(code)) return undefined;
  if (code.includes('ALERT_CERTIFICATE_REQUIRED')) return `wants a client certificate (${code}). ${CLIENT_CERTIFICATE}`;
  if (code.includes('_ALERT_')) return `refuses TLS with this client certificate (${code}). ${CLIENT_CERTIFICATE}`;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `has a certificate for another name (${code}). Use the host name that it is for.`;
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID')
    return `has a certificate that is not valid now (${code}). Have it renewed, or set the clock of this server.`;
  return `has a certificate of an unknown authority (${code}). Set CA_FILE to a PEM file with the certificate of that authority.`;
}

/**
 * The code with which TLS to one of the addresses fails; undefined without TLS. ioredis tells no code of a sentinel, and of
 * a server that refuses the client certificate only that the connection broke.
 */
async function tlsFault({ addresses, credentials: { tls } }: RedisPlace): Promise<string | undefined> {
  if (!tls) return undefined;
  const codes = await Promise.all(addresses.map((address) => handshakeFault({ ...tls, ...address })));
  return codes.find((code) => code !== undefined);
}

/** Sends nothing: data that the server does not read would turn its alert into a reset. */
function handshakeFault(options: ConnectionOptions): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connectTls(options).resume();
    const end = (code?: string) => {
      socket.destroy();
      resolve(code);
    };
    socket.setTimeout(PROBE_MILLISECONDS, end);
    socket.on('error', (error) => end(codeOf(error)));
    socket.on('close', () => end());
  });
}

function isUnreached(code: string | undefined): boolean {
  return code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'EAI_AGAIN';
}

async function someRespond(addresses: readonly RedisAddress[], isSecure: boolean): Promise<boolean> {
  const responses = await Promise.all(addresses.map((address) => respondsToPing(address, isSecure)));
  return responses.includes(true);
}

/** Sends no credentials, because it may be a server of another kind. */
function respondsToPing({ host, port }: RedisAddress, isSecure: boolean): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = isSecure ? connectTls({ host, port, rejectUnauthorized: false }) : connect({ host, port });
    const end = (responds: boolean) => {
      socket.destroy();
      resolve(responds);
    };
    socket.setTimeout(PROBE_MILLISECONDS, () => end(false));
    socket.on('error', () => end(false));
    socket.on('data', (bytes) => end(/^[+-]/.test(bytes.toString('latin1'))));
    socket.write('PING\r\n');
  });
}
