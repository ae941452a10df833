/**
 * Creates, verifies, rotates and revokes relay tokens. A token is shown once and stored as a hash. A revocation takes
 * effect in every process within a second.
 */
import { remembered } from '../../shared/remembered.ts';
import { hashOf, keys } from '../../shared/storage/keys.ts';
import { createLastUses } from '../../shared/storage/last-uses.ts';
import { createOpaqueToken, isSameHash, parseOpaqueToken } from '../../shared/storage/opaque-token.ts';
import { createRecords, type Records, type Versioned } from '../../shared/storage/records.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import { POLICY_DEFAULTS, type RelayPolicy } from './policy.ts';

export const RELAY_TOKEN_PREFIX = 'gthr_';

/** Times in milliseconds since the epoch. */
export interface RelayToken extends RelayPolicy {
  id: string;
  name: string;
  /** How many BIN lookup calls are allowed per month (UTC); null for all that are not reserved for users. */
  binCallsPerMonth: number | null;
  createdAt: number;
  /** When the current secret was created. */
  rotatedAt: number;
  /** Until when the previous secret is valid; undefined if it no longer is. */
  overlapEndsAt: number | undefined;
  /** The version of the stored record. A change must name the version that it replaces. */
  version: number;
}

export type RelayTokenInput = RelayPolicy & Pick<RelayToken, 'name' | 'binCallsPerMonth'>;

export interface RelayTokenUse {
  at: number;
  address: string;
}

/** `until` is undefined for the current secret, which expires with the token. */
type StoredSecret = { hash: string; until?: number };
type StoredToken = Omit<RelayToken, 'version' | 'overlapEndsAt'> & { secrets: readonly StoredSecret[] };
/** A parsed token: the id of its record, and the hash that the record must hold. */
type ParsedToken = { id: string; hash: Buffer };
/** A record as it was read, with hashes as bytes for the comparison. `readAt`: by `performance.now()`. */
type ReadToken = { secrets: readonly { hash: Buffer; until?: number }[]; token: RelayToken; readAt: number };

/** How long a record is cached: a process that misses the notice of a revocation accepts the token for this long. */
const MAX_CACHE_AGE_MS = 400;
const MAX_CACHED = 10_000;
const CHANNEL = 'relay-tokens';

export interface RelayTokens extends Pick<Records<StoredToken, RelayToken>, 'find' | 'page' | 'count'> {
  /** Creates a token. `text` is the token itself, which is shown only once. @param id from `newOpaqueTokenId` */
  create(id: string, input: RelayTokenInput): Promise<{ token: RelayToken; text: string }>;
  /** Returns the token if it is valid now; undefined for unknown, wrong, expired and revoked tokens alike (R84). */
  verify(text: string): Promise<RelayToken | undefined>;
  /** Records a use, at most once a minute. Never rejects; callers need not await it. */
  noteUse(id: string, address: string): Promise<void>;
  lastUse(id: string): Promise<RelayTokenUse | undefined>;
  /** Changes a token. Returns undefined if there is no such token. @throws AppError `version_conflict` */
  change(id: string, version: number, input: RelayTokenInput): Promise<RelayToken | undefined>;
  /**
   * Creates a new secret. The previous one stays valid for `overlapSeconds`; older ones are no longer valid. Returns
   * undefined if there is no such token.
   * @param version undefined for any version
   * @throws AppError `version_conflict`
   */
  rotate(
    id: string,
    overlapSeconds: number,
    version?: number,
  ): Promise<{ token: RelayToken; text: string } | undefined>;
  /** Ends the overlap: only the current secret stays valid. The rest as for `rotate`. */
  endOverlap(id: string, version?: number): Promise<RelayToken | undefined>;
  /** Revokes a token. @returns false if there is no such token */
  revoke(id: string): Promise<boolean>;
  close(): Promise<void>;
}

export async function createRelayTokens(parts: {
  store: Store;
  sealedJson: SealedJson;
  clock: () => number;
}): Promise<RelayTokens> {
  const { store, sealedJson, clock } = parts;
  const records = createRecords<StoredToken, RelayToken>({
    store,
    sealedJson,
    index: keys.relayTokens,
    keyOf: keys.relayToken,
    resource: 'relay token',
    toView: (record) => tokenOf(record, clock()),
    relatedKeys: (id) => [keys.relayTokenUse(id)],
  });
  const lastUses = createLastUses({ store, clock, keyOf: keys.relayToken, useKeyOf: keys.relayTokenUse });
  const cache = remembered<ReadToken>(MAX_CACHED);
  const unsubscribe = await store.subscribe(CHANNEL, (id) => void cache.delete(id));

  // Parsed tokens are cached so that the secret is not hashed on each call: only valid ones, so that guesses cannot
  // evict them.
  const parsedTokens = remembered<ParsedToken>(MAX_CACHED);
  const parse = (text: string): ParsedToken | undefined => {
    const cached = parsedTokens.get(text);
    if (cached) return cached;
    const parsed = parseOpaqueToken(RELAY_TOKEN_PREFIX, text);
    return parsed && { id: parsed.id, hash: Buffer.from(hashOf(parsed.secret)) };
  };

  const cachedForCall = (id: string): ReadToken | undefined => {
    const cached = cache.get(id);
    return cached && performance.now() - cached.readAt < MAX_CACHE_AGE_MS ? cached : undefined;
  };
  const readForCall = async (id: string): Promise<ReadToken | undefined> => {
    const readAt = performance.now();
    const record = await records.read(id);
    if (!record) {
      cache.delete(id);
      return undefined;
    }
    const secrets = record.value.secrets.map((secret) => ({ ...secret, hash: Buffer.from(secret.hash) }));
    const readToken = { secrets, token: tokenOf(record, clock()), readAt };
    cache.set(id, readToken);
    return readToken;
  };

  /** Returns the token if the hash is that of a valid secret and the token has not expired. */
  const validToken = (read: ReadToken | undefined, hash: Buffer): RelayToken | undefined => {
    if (!read) return undefined;
    const now = clock();
    const hasSecret = read.secrets.some(
      (secret) => isSameHash(hash, secret.hash) && (secret.until === undefined || now < secret.until),
    );
    return hasSecret && now < read.token.expiresAt ? read.token : undefined;
  };

  /**
   * Makes every process drop its cached record. A process that misses the notice uses it for up to `MAX_CACHE_AGE_MS`.
   */
  const announce = async (id: string): Promise<void> => {
    cache.delete(id);
    await store.publish(CHANNEL, id).catch(() => undefined);
  };

  const change = async (...request: Parameters<typeof records.change>) => {
    const token = await records.change(...request);
    if (token) await announce(token.id);
    return token;
  };

  return {
    async create(id, input) {
      const { secret, text } = createOpaqueToken(RELAY_TOKEN_PREFIX, id);
      const now = clock();
      const secrets = [{ hash: hashOf(secret) }];
      return { token: await records.create({ ...input, id, createdAt: now, rotatedAt: now, secrets }), text };
    },

    async verify(text) {
      const parsed = parse(text);
      if (!parsed) return undefined;
      const { id, hash } = parsed;
      // A secret that is not in the cached record may be new: another process has just rotated the token.
      const token = validToken(cachedForCall(id), hash) ?? validToken(await readForCall(id), hash);
      if (token) parsedTokens.set(text, parsed);
      return token;
    },

    noteUse: (id, address) => lastUses.record(id, JSON.stringify({ at: clock(), address } satisfies RelayTokenUse)),

    find: records.find,
    page: records.page,
    count: records.count,

    async lastUse(id) {
      const text = await lastUses.read(id);
      return text === undefined ? undefined : (JSON.parse(text) as RelayTokenUse);
    },

    change: (id, version, input) => change(id, version, (stored) => ({ ...stored, ...input })),

    async rotate(id, overlapSeconds, version) {
      const { secret, text } = createOpaqueToken(RELAY_TOKEN_PREFIX, id);
      const token = await change(id, version, (stored) => {
        const now = clock();
        const [current] = stored.secrets;
        const overlapping =
          current && overlapSeconds > 0 ? [{ hash: current.hash, until: now + overlapSeconds * 1000 }] : [];
        return { ...stored, rotatedAt: now, secrets: [{ hash: hashOf(secret) }, ...overlapping] };
      });
      return token && { token, text };
    },

    endOverlap: (id, version) =>
      change(id, version, ({ secrets, ...stored }) => ({ ...stored, secrets: secrets.slice(0, 1) })),

    async revoke(id) {
      const revoked = await records.remove(id);
      if (revoked) await announce(id);
      return revoked;
    },

    close: unsubscribe,
  };
}

function tokenOf({ value, version }: Versioned<StoredToken>, now: number): RelayToken {
  const { secrets, ...token } = value;
  const until = secrets.map((secret) => secret.until).find((end) => end !== undefined && end > now);
  return { ...POLICY_DEFAULTS, ...token, overlapEndsAt: until, version };
}
