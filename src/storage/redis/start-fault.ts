/** Explains why there is no connection to Redis at the start: the address, the setting that names it, and the cause. */
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { StorageRefused } from '../refused.ts';
import { unavailable } from '../unavailable.ts';
import type { RedisAddress, RedisPlace } from './target.ts';

const SETTINGS = { single: 'REDIS_URL', cluster: 'REDIS_CLUSTER', sentinel: 'REDIS_SENTINELS' } as const;
const CERTIFICATE = /CERT|UNABLE_TO_|SELF_SIGNED/;
const PROBE_MILLISECONDS = 500;

/** The error to throw: `StorageRefused` if the settings are wrong, otherwise `storage_unavailable`. */
export async function startFault(place: RedisPlace, error: unknown): Promise<Error> {
  const { code, text } = read(error);
  const setting = SETTINGS[place.kind];
  const hosts = place.addresses.map(({ host, port }) => `${host}:${port}`).join(', ');
  const name = `Redis at ${hosts} (${setting})`;
  const refuse = (why: string) => new StorageRefused(`${name} ${why}`, error);

  const credentials = /\b(WRONGPASS|NOAUTH|NOPERM)\b/.exec(text)?.[1];
  if (credentials) return refuse(`refuses the user or the password (${credentials}). Correct them in ${setting}.`);
  if (code !== undefined && CERTIFICATE.test(code)) {
    const advice = 'Name the file of its CA in the environment variable NODE_EXTRA_CA_CERTS';
    return refuse(`has a certificate that is not trusted (${code}). ${advice}, or use the host name that it is for.`);
  }
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
