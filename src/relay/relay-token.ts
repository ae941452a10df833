/** Owns relay tokens: made and shown once, kept as a hash, rotated with an overlap, and revoked for every process within a second. */
import { AppError } from '../errors.ts';
import { remembered } from '../remembered.ts';
import { hashOf, keys } from '../storage/keys.ts';
import { createOpaqueToken, isOpaqueTokenId, isSameHash, parseOpaqueToken } from '../storage/opaque-token.ts';
import type { PageOptions, Store } from '../storage/store.ts';
import type { RelayPolicy } from './policy.ts';

export const RELAY_TOKEN_PREFIX = 'gthr_';

/** Times in milliseconds since the epoch. */
export interface RelayToken extends RelayPolicy {
  id: string;
  name: string;
  createdAt: number;
  /** The last secret's; before the first rotation the same as `createdAt`. */
  rotatedAt: number;
  /** Until when the secret before the last counts as well. */
  overlapEndsAt: number | undefined;
  /** Of the stored record: a change is written over this one alone. */
  version: number;
}

export type WantedRelayToken = RelayPolicy & { name: string };

export interface RelayTokenUse {
  at: number;
  address: string;
}

export interface RelayTokens {
  /** `text` is what the service keeps; nobody can have it again. @param id as `newOpaqueTokenId` draws them */
  create(id: string, wanted: WantedRelayToken): Promise<{ token: RelayToken; text: string }>;
  /** The token that is valid now; undefined alike for unknown, wrong, expired and revoked ones (R84). */
  verify(text: string): Promise<RelayToken | undefined>;
  /** Notes a use at most once a minute. Never rejects, and nobody has to wait for it. */
  noteUse(id: string, address: string): Promise<void>;
  find(id: string): Promise<RelayToken | undefined>;
  /** The newest first; expired ones included. */
  page(options: Pick<PageOptions, 'after' | 'limit'>): Promise<{ tokens: RelayToken[]; next: string | undefined }>;
  lastUse(id: string): Promise<RelayTokenUse | undefined>;
  /** Undefined where there is no such token. @throws AppError `version_conflict` */
  change(id: string, version: number, wanted: WantedRelayToken): Promise<RelayToken | undefined>;
  /** A new secret; the one before counts for so long yet, and older ones no more. Undefined where there is no such token. */
  rotate(id: string, overlapSeconds: number): Promise<{ token: RelayToken; text: string } | undefined>;
  /** Answers false where there is no such token. */
  revoke(id: string): Promise<boolean>;
  close(): Promise<void>;
}

/** Newest first; the first one has no end of its own. */
type KeptSecret = { hash: string; until?: number };
type KeptToken = Omit<RelayToken, 'version' | 'overlapEndsAt'> & { secrets: readonly KeptSecret[] };
/** What the text of a token says: whose record it is, and the hash that has to be kept there. */
type Shown = { id: string; hash: Buffer };
type ReadToken = { kept: KeptToken; version: number };

/** How long a process works with what it read: a revocation that it was not told of counts after this at the latest. */
const FRESH_MILLISECONDS = 400;
const MOST_CACHED = 10_000;
const USE_MILLISECONDS = 60_000;
const CHANNEL = 'relay-tokens';

export async function createRelayTokens(parts: { store: Store; clock: () => number }): Promise<RelayTokens> {
  const { store, clock } = parts;
  const cache = new Map<string, ReadToken & { readAt: number }>();
  const usedAt = new Map<string, number>();
  const unsubscribe = await store.subscribe(CHANNEL, (id) => void cache.delete(id));

  // What a text says and hashes to is worked out once. Only of tokens that were valid then: guesses take nobody's place.
  const shown = remembered<Shown>(MOST_CACHED);
  const shownBy = (text: string): Shown | undefined => {
    const known = shown.get(text);
    if (known) return known;
    const given = parseOpaqueToken(RELAY_TOKEN_PREFIX, text);
    return given && { id: given.id, hash: Buffer.from(hashOf(given.secret)) };
  };

  const load = async (id: string): Promise<ReadToken | undefined> => {
    if (!isOpaqueTokenId(id)) return undefined;
    const readAt = performance.now();
    const stored = await store.get(keys.relayToken(id));
    if (!stored) {
      cache.delete(id);
      return undefined;
    }
    const read = { kept: JSON.parse(stored.value) as KeptToken, version: stored.version };
    if (cache.size >= MOST_CACHED) cache.clear();
    cache.set(id, { ...read, readAt });
    return read;
  };

  const loadForCall = async (id: string): Promise<ReadToken | undefined> => {
    const cached = cache.get(id);
    return cached && performance.now() - cached.readAt < FRESH_MILLISECONDS ? cached : load(id);
  };

  /** Everybody else reads it again at once; who misses the word does so a moment later. */
  const tell = async (id: string): Promise<void> => {
    cache.delete(id);
    await store.publish(CHANNEL, id).catch(() => undefined);
  };

  const save = async (kept: KeptToken, ifVersion: number): Promise<RelayToken> => {
    const written = await store.write([
      { put: keys.relayToken(kept.id), value: JSON.stringify(kept), ifVersion },
      { index: keys.relayTokens, add: kept.id, score: kept.createdAt },
    ]);
    if (!written) throw conflict();
    await tell(kept.id);
    const read = await load(kept.id);
    return tokenOf(read ?? { kept, version: ifVersion }, clock());
  };

  return {
    async create(id, wanted) {
      const { secret, text } = createOpaqueToken(RELAY_TOKEN_PREFIX, undefined, { id });
      const now = clock();
      const secrets = [{ hash: hashOf(secret) }];
      const token = await save({ ...policyOf(wanted), id, createdAt: now, rotatedAt: now, secrets }, 0);
      return { token, text };
    },

    async verify(text) {
      const given = shownBy(text);
      const found = given && (await loadForCall(given.id));
      if (!given || !found) return undefined;
      const now = clock();
      const known = found.kept.secrets.some(
        ({ hash, until }) => isSameHash(given.hash, hash) && (until === undefined || now < until),
      );
      if (!known || now >= found.kept.expiresAt) return undefined;
      shown.set(text, given);
      return tokenOf(found, now);
    },

    async noteUse(id, address) {
      const now = clock();
      const last = usedAt.get(id);
      if (last !== undefined && now >= last && now - last < USE_MILLISECONDS) return;
      if (usedAt.size >= MOST_CACHED) usedAt.clear();
      usedAt.set(id, now);
      try {
        // A call may end after its token was revoked: then nothing is left behind.
        const value = JSON.stringify({ at: now, address });
        await store.write([{ exists: keys.relayToken(id) }, { put: keys.relayTokenUse(id), value }]);
      } catch {
        usedAt.delete(id);
      }
    },

    async find(id) {
      const read = await load(id);
      return read && tokenOf(read, clock());
    },

    async page(options) {
      const page = await store.page(keys.relayTokens, { ...options, order: 'descending' });
      const found = await Promise.all(page.items.map(({ member }) => load(member)));
      return { tokens: found.flatMap((read) => (read ? [tokenOf(read, clock())] : [])), next: page.next };
    },

    async lastUse(id) {
      const stored = await store.get(keys.relayTokenUse(id));
      return stored && (JSON.parse(stored.value) as RelayTokenUse);
    },

    async change(id, version, wanted) {
      const read = await load(id);
      if (!read) return undefined;
      const { createdAt, rotatedAt, secrets } = read.kept;
      if (read.version !== version) throw conflict();
      return save({ ...policyOf(wanted), id, createdAt, rotatedAt, secrets }, version);
    },

    async rotate(id, overlapSeconds) {
      const read = await load(id);
      if (!read) return undefined;
      const { secret, text } = createOpaqueToken(RELAY_TOKEN_PREFIX, undefined, { id });
      const now = clock();
      const [last] = read.kept.secrets;
      const overlapping = last && overlapSeconds > 0 ? [{ hash: last.hash, until: now + overlapSeconds * 1000 }] : [];
      const secrets = [{ hash: hashOf(secret) }, ...overlapping];
      return { token: await save({ ...read.kept, rotatedAt: now, secrets }, read.version), text };
    },

    async revoke(id) {
      if (!(await load(id))) return false;
      const revoked = await store.write([
        { delete: keys.relayToken(id) },
        { delete: keys.relayTokenUse(id) },
        { index: keys.relayTokens, remove: id },
      ]);
      await tell(id);
      return revoked;
    },

    close: unsubscribe,
  };
}

function conflict(): AppError {
  return new AppError('version_conflict', { detail: 'Read the relay token again and repeat the change.' });
}

function policyOf(wanted: WantedRelayToken): WantedRelayToken {
  const { name, scopes, apps, users, networks, expiresAt, assertUser, fullScope } = wanted;
  return { name, scopes, apps, users, networks, expiresAt, assertUser, fullScope };
}

function tokenOf({ kept, version }: ReadToken, now: number): RelayToken {
  const { secrets, ...token } = kept;
  const until = secrets.map((secret) => secret.until).find((end) => end !== undefined && end > now);
  return { ...token, overlapEndsAt: until, version };
}
