/** Owns our own signing keys (ES256): one set for all processes, sealed in the store, published before they sign, kept while a signature may count. */
import {
  calculateJwkThumbprint,
  createLocalJWKSet,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JSONWebKeySet,
  type JWK,
  type JWTPayload,
  type JWTVerifyOptions,
  jwtVerify,
  SignJWT,
} from 'jose';
import { keys } from '../storage/keys.ts';
import { SealError, type Sealer } from '../storage/sealed.ts';
import type { Store } from '../storage/store.ts';

export interface OwnKeys {
  /** A JWT with our `kid`; it has to end within `LONGEST_SIGNATURE_SECONDS`, since the key may be gone after that. */
  sign(claims: JWTPayload, header: { typ: string }): Promise<string>;
  /** The claims of a JWT that we signed and that passes these rules; undefined for any other. Times follow our clock. */
  verify(token: string, rules: JWTVerifyOptions): Promise<JWTPayload | undefined>;
  /** What `/.well-known/jwks.json` shows: also the key that will sign next. */
  publicKeys(): Promise<JSONWebKeySet>;
  /** For libraries that sign by themselves (private_key_jwt). */
  signingKey(): Promise<{ kid: string; privateKey: CryptoKey }>;
  /** Publishes the next key now; it signs once everybody had time to read it. Does nothing while one is waiting. */
  rotate(): Promise<void>;
}

interface OwnKey {
  kid: string;
  /** Private members included. */
  jwk: JWK;
  /** Milliseconds since the epoch. */
  signsFrom: number;
}

export const LONGEST_SIGNATURE_SECONDS = 300;
export const KEY_TIMES = {
  /** How long a key signs. */
  signsMilliseconds: 30 * 86_400_000,
  /** How long a key is shown before it signs: longer than anybody keeps a key set. */
  aheadMilliseconds: 86_400_000,
  /** How long a key is shown after its successor has begun to sign. */
  afterMilliseconds: 3_600_000,
} as const;

const ALGORITHM = 'ES256';
/** How long a process works with what it read. */
const FRESH_MILLISECONDS = 10_000;
/** A key id that nobody knows asks for the keys again, at most this often. */
const RETRY_MILLISECONDS = 1_000;

export function createOwnKeys(parts: {
  store: Store;
  sealer: Sealer;
  clock: () => number;
  /** Told where the kept keys could not be opened, so that new ones had to be made. */
  onReplaced?: (cause: unknown) => void;
}): OwnKeys {
  const { store, sealer, clock, onReplaced } = parts;
  const imported = new Map<string, Promise<CryptoKey>>();
  let known: { keys: readonly OwnKey[]; readAt: number } | undefined;
  let reading: Promise<readonly OwnKey[]> | undefined;

  const open = async (sealed: string): Promise<OwnKey[]> => {
    try {
      return JSON.parse(await sealer.open(sealed, keys.ownKeys)) as OwnKey[];
    } catch (error) {
      // Nobody can use them any more; what they signed counts for minutes, so new ones cost little.
      if (!(error instanceof SealError)) throw error;
      onReplaced?.(error);
      return [];
    }
  };

  /** Reads the keys and does what is due; of several processes that do it at once one succeeds, and the others read again. */
  const load = async (change: (held: readonly OwnKey[], now: number) => Promise<readonly OwnKey[]>) => {
    for (;;) {
      const record = await store.get(keys.ownKeys);
      const held = record ? await open(record.value) : [];
      const next = await change(held, clock());
      if (record && sameKeys(held, next)) return held;
      const value = await sealer.seal(JSON.stringify(next), keys.ownKeys);
      if (await store.write([{ put: keys.ownKeys, value, ifVersion: record?.version ?? 0 }])) return next;
    }
  };

  const current = (mostAge = FRESH_MILLISECONDS): Promise<readonly OwnKey[]> => {
    const age = known && clock() - known.readAt;
    if (known && age !== undefined && age >= 0 && age < mostAge) return Promise.resolve(known.keys);
    reading ??= load(dueKeys)
      .then((held) => {
        known = { keys: held, readAt: clock() };
        return held;
      })
      .finally(() => {
        reading = undefined;
      });
    return reading;
  };

  const privateKey = (key: OwnKey): Promise<CryptoKey> => {
    const existing = imported.get(key.kid) ?? (importJWK(key.jwk, ALGORITHM) as Promise<CryptoKey>);
    imported.set(key.kid, existing);
    return existing;
  };

  const signing = async () => {
    const key = signingKeyOf(await current(), clock());
    return { kid: key.kid, privateKey: await privateKey(key) };
  };

  const verifyWith = async (held: readonly OwnKey[], token: string, rules: JWTVerifyOptions) => {
    const keySet = createLocalJWKSet({ keys: held.map(publicJwk) });
    const options = { ...rules, algorithms: [ALGORITHM], currentDate: new Date(clock()) };
    const verified = await jwtVerify(token, keySet, options).catch((error: unknown) => {
      if (error instanceof Error && 'code' in error && error.code === 'ERR_JWKS_NO_MATCHING_KEY') return 'unknown_key';
      return undefined;
    });
    if (verified === undefined || verified === 'unknown_key') return verified;
    return verified.protectedHeader.crit ? undefined : verified.payload;
  };

  return {
    signingKey: signing,
    async sign(claims, header) {
      const { kid, privateKey: key } = await signing();
      return new SignJWT(claims).setProtectedHeader({ alg: ALGORITHM, kid, ...header }).sign(key);
    },
    async verify(token, rules) {
      const first = await verifyWith(await current(), token, rules);
      if (first !== 'unknown_key') return first;
      const again = await verifyWith(await current(RETRY_MILLISECONDS), token, rules);
      return again === 'unknown_key' ? undefined : again;
    },
    publicKeys: async () => ({ keys: (await current()).map(publicJwk) }),
    async rotate() {
      const held = await load(async (given, now) => {
        const due = await dueKeys(given, now);
        return due.some(({ signsFrom }) => signsFrom > now)
          ? due
          : [...due, await makeKey(now + KEY_TIMES.aheadMilliseconds)];
      });
      known = { keys: held, readAt: clock() };
    },
  };
}

/** The keys as they have to be now: old ones gone, the next one there. */
async function dueKeys(held: readonly OwnKey[], now: number): Promise<readonly OwnKey[]> {
  const { signsMilliseconds, aheadMilliseconds, afterMilliseconds } = KEY_TIMES;
  const kept = held.filter((_key, at) => {
    const successor = held[at + 1];
    return !successor || now < successor.signsFrom + afterMilliseconds;
  });
  const newest = kept.at(-1);
  if (!newest) return [await makeKey(now)];
  if (now < newest.signsFrom + signsMilliseconds - aheadMilliseconds) return kept;
  return [...kept, await makeKey(now + aheadMilliseconds)];
}

/** The newest that may sign already. */
function signingKeyOf(held: readonly OwnKey[], now: number): OwnKey {
  const key = held.findLast(({ signsFrom }) => signsFrom <= now) ?? held[0];
  if (!key) throw new TypeError('There is always one key at least.');
  return key;
}

async function makeKey(signsFrom: number): Promise<OwnKey> {
  const pair = await generateKeyPair(ALGORITHM, { extractable: true });
  const jwk = await exportJWK(pair.privateKey);
  return { kid: await calculateJwkThumbprint(jwk), jwk, signsFrom };
}

function publicJwk({ kid, jwk }: OwnKey): JWK {
  const { kty = '', crv = '', x = '', y = '' } = jwk;
  return { kty, crv, x, y, kid, alg: ALGORITHM, use: 'sig' };
}

function sameKeys(left: readonly OwnKey[], right: readonly OwnKey[]): boolean {
  return left.length === right.length && left.every(({ kid }, at) => kid === right[at]?.kid);
}
