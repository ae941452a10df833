/** Our signing keys (ES256): sealed in the store, published before they sign and until their signatures expire. */
import { randomUUID } from 'node:crypto';
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
import { codeOf } from '../../shared/errors.ts';
import { keys } from '../../shared/storage/keys.ts';
import { SealError } from '../../shared/storage/sealed.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_MS, HOUR_MS } from '../../shared/time.ts';

export interface OwnKeys {
  /** Lists the published keys: when each was created, and from when it signs, in milliseconds since the epoch. */
  list(): Promise<{ kid: string; active: boolean; madeAt: number; signsFrom: number }[]>;
  /** Signs a JWT that is valid for `seconds`, at most `afterMilliseconds`: after that, the key may be removed. */
  sign(claims: JWTPayload, options: { typ: string; seconds: number }): Promise<string>;
  /** Returns the claims of a JWT that we signed and that passes the rules; otherwise undefined. */
  verify(token: string, rules: JWTVerifyOptions): Promise<JWTPayload | undefined>;
  /** Returns the keys of `/.well-known/jwks.json`, including the next one. */
  publicKeys(): Promise<JSONWebKeySet>;
  /** Publishes the next key now, unless there is one already. This key signs after `aheadMilliseconds`. */
  rotate(): Promise<void>;
}

interface OwnKey {
  kid: string;
  /** Private members included. */
  jwk: JWK;
  /** Milliseconds since the epoch, like `madeAt`. */
  signsFrom: number;
  madeAt: number;
}

export const KEY_TIMES = {
  /** How long a key signs. */
  signsMilliseconds: 30 * DAY_MS,
  /** How long a key is published before it signs: longer than verifiers cache a key set. */
  aheadMilliseconds: DAY_MS,
  /** How long a key stays published after its successor starts to sign. */
  afterMilliseconds: HOUR_MS,
} as const;

const ALGORITHM = 'ES256';
/** How long a process caches the keys. */
const CACHE_MS = 10_000;
/** An unknown key id makes a process read the keys again, at most this often. */
const UNKNOWN_KEY_CACHE_MS = 1_000;

export function createOwnKeys(parts: {
  store: Store;
  sealedJson: SealedJson;
  clock: () => number;
  /** Called if the stored keys could not be opened and new ones were created. */
  onReplaced?: (cause: unknown) => void;
}): OwnKeys {
  const { store, sealedJson, clock, onReplaced } = parts;
  const imported = new Map<string, Promise<CryptoKey>>();
  let cached: { keys: readonly OwnKey[]; readAt: number } | undefined;
  let reading: Promise<readonly OwnKey[]> | undefined;

  const open = async (sealed: string): Promise<OwnKey[]> => {
    try {
      return await sealedJson.openOrThrow<OwnKey[]>(sealed, keys.ownKeys);
    } catch (error) {
      // New keys cost little: what the old ones signed is valid for minutes only.
      if (!(error instanceof SealError)) throw error;
      onReplaced?.(error);
      return [];
    }
  };

  /** Reads the keys, applies the change and caches them. Starts over if another process has changed them meanwhile. */
  const load = async (change: (stored: readonly OwnKey[], now: number) => Promise<readonly OwnKey[]>) => {
    for (;;) {
      const record = await store.get(keys.ownKeys);
      const stored = record ? await open(record.value) : [];
      const next = await change(stored, clock());
      if (!record || !sameKeys(stored, next)) {
        const value = await sealedJson.seal(next, keys.ownKeys);
        if (!(await store.write([{ put: keys.ownKeys, value, ifVersion: record?.version ?? 0 }]))) continue;
      }
      cached = { keys: next, readAt: clock() };
      return next;
    }
  };

  const current = (maxAgeMs = CACHE_MS): Promise<readonly OwnKey[]> => {
    const age = clock() - (cached?.readAt ?? 0);
    if (cached && age >= 0 && age < maxAgeMs) return Promise.resolve(cached.keys);
    reading ??= load(dueKeys).finally(() => {
      reading = undefined;
    });
    return reading;
  };

  const privateKey = (key: OwnKey): Promise<CryptoKey> => {
    const existing = imported.get(key.kid) ?? (importJWK(key.jwk, ALGORITHM) as Promise<CryptoKey>);
    imported.set(key.kid, existing);
    return existing;
  };

  const signingKey = async () => signingKeyOf(await current(), clock());

  const verifyWith = async (ownKeys: readonly OwnKey[], token: string, rules: JWTVerifyOptions) => {
    const keySet = createLocalJWKSet({ keys: ownKeys.map(publicJwk) });
    const options = { ...rules, algorithms: [ALGORITHM], currentDate: new Date(clock()) };
    try {
      const { protectedHeader, payload } = await jwtVerify(token, keySet, options);
      return protectedHeader.crit ? undefined : payload;
    } catch (error) {
      return codeOf(error) === 'ERR_JWKS_NO_MATCHING_KEY' ? 'unknown_key' : undefined;
    }
  };

  return {
    async list() {
      const stored = await current();
      const { kid: signing } = signingKeyOf(stored, clock());
      return stored.map(({ kid, madeAt, signsFrom }) => ({ kid, active: kid === signing, madeAt, signsFrom }));
    },
    async sign(claims, { typ, seconds }) {
      const key = await signingKey();
      const iat = Math.floor(clock() / 1000);
      return new SignJWT({ ...claims, jti: randomUUID(), iat, exp: iat + seconds })
        .setProtectedHeader({ alg: ALGORITHM, kid: key.kid, typ })
        .sign(await privateKey(key));
    },
    async verify(token, rules) {
      const cachedResult = await verifyWith(await current(), token, rules);
      if (cachedResult !== 'unknown_key') return cachedResult;
      const freshResult = await verifyWith(await current(UNKNOWN_KEY_CACHE_MS), token, rules);
      return freshResult === 'unknown_key' ? undefined : freshResult;
    },
    publicKeys: async () => ({ keys: (await current()).map(publicJwk) }),
    async rotate() {
      await load(async (stored, now) => {
        const due = await dueKeys(stored, now);
        const hasNext = due.some(({ signsFrom }) => signsFrom > now);
        return hasNext ? due : [...due, await makeKey(now, now + KEY_TIMES.aheadMilliseconds)];
      });
    },
  };
}

/** Returns the keys to publish now: without expired ones, and with the next one once it is due. */
async function dueKeys(stored: readonly OwnKey[], now: number): Promise<readonly OwnKey[]> {
  const { signsMilliseconds, aheadMilliseconds, afterMilliseconds } = KEY_TIMES;
  const current = stored.filter((_key, index) => {
    const successor = stored[index + 1];
    return !successor || now < successor.signsFrom + afterMilliseconds;
  });
  const newest = current.at(-1);
  if (!newest) return [await makeKey(now, now)];
  if (now < newest.signsFrom + signsMilliseconds - aheadMilliseconds) return current;
  return [...current, await makeKey(now, now + aheadMilliseconds)];
}

/** Returns the newest key that may sign. */
function signingKeyOf(ownKeys: readonly OwnKey[], now: number): OwnKey {
  const key = ownKeys.findLast(({ signsFrom }) => signsFrom <= now) ?? ownKeys[0];
  if (!key) throw new TypeError('There is always at least one key.');
  return key;
}

async function makeKey(madeAt: number, signsFrom: number): Promise<OwnKey> {
  const pair = await generateKeyPair(ALGORITHM, { extractable: true });
  const jwk = await exportJWK(pair.privateKey);
  return { kid: await calculateJwkThumbprint(jwk), jwk, signsFrom, madeAt };
}

function publicJwk({ kid, jwk }: OwnKey): JWK {
  const { kty = '', crv = '', x = '', y = '' } = jwk;
  return { kty, crv, x, y, kid, alg: ALGORITHM, use: 'sig' };
}

function sameKeys(left: readonly OwnKey[], right: readonly OwnKey[]): boolean {
  return left.length === right.length && left.every(({ kid }, index) => kid === right[index]?.kid);
}
