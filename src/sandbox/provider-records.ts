/** Stores the records of oidc-provider in memory. */

export type Payload = Record<string, unknown> & {
  uid?: string;
  grantId?: string;
  consumed?: number;
  clientId?: string;
  accountId?: string;
  /** The time at which the first refresh token of the grant was issued. */
  iiat?: number;
};

interface StoredRecord {
  payload: Payload;
  expiresAtMs: number;
  /** Time of the first use. */
  consumedAtMs?: number;
}

/** The part of oidc-provider's adapter interface that the enabled features use. */
export interface RecordAdapter {
  upsert(id: string, payload: Payload, expiresIn?: number): Promise<void>;
  find(id: string): Promise<Payload | undefined>;
  findByUid(uid: string): Promise<Payload | undefined>;
  consume(id: string): Promise<void>;
  destroy(id: string): Promise<void>;
  revokeByGrantId(grantId: string): Promise<void>;
}

export interface ProviderRecords {
  adapterFor(model: string): RecordAdapter;
  /** Returns copies of all unexpired records of a kind, oldest first. */
  all(model: string): { id: string; payload: Payload }[];
  /** Deletes a grant with all its tokens and codes. */
  endGrant(grantId: string): void;
  /** Deletes the access tokens of an app for an account. */
  endAccessTokens(accountId: string, clientId: string): void;
  /**
   * Extends the lifetime of a used refresh token.
   * @param lifetimeSeconds returns the new lifetime. Its argument is the time at which the first refresh token of the
   *   grant was issued, in seconds since the epoch
   */
  prolong(refreshToken: string, lifetimeSeconds: (firstIssuedAtSeconds: number) => number): void;
}

/** The beginning of the keys of a kind of record. */
const prefixOf = (model: string) => `${model}:`;

/**
 * Replaces the library's memory store, which silently drops valid grants if there are more than 1,000 records.
 * @param parts `graceSeconds`: how long after its first use a refresh token of an app may be used again
 */
export function createProviderRecords(parts: {
  now: () => number;
  maxRecords: number;
  graceSeconds?: (clientId: string) => number;
}): ProviderRecords {
  const { now, maxRecords, graceSeconds = () => 0 } = parts;
  const records = new Map<string, StoredRecord>();
  const keyByUid = new Map<string, string>();

  function drop(key: string): void {
    const uid = records.get(key)?.payload.uid;
    records.delete(key);
    if (uid !== undefined && keyByUid.get(uid) === key) keyByUid.delete(uid);
  }

  function readUnexpired(key: string | undefined): Payload | undefined {
    const record = key === undefined ? undefined : records.get(key);
    if (key === undefined || record === undefined) return undefined;
    if (record.expiresAtMs > now()) return record.payload;
    drop(key);
    return undefined;
  }

  function save(key: string, payload: Payload, expiresAtMs: number): void {
    // Delete first, so that the record moves to the end of the eviction order.
    drop(key);
    makeSpace();
    records.set(key, { payload: structuredClone(payload), expiresAtMs });
    if (payload.uid !== undefined) keyByUid.set(payload.uid, key);
  }

  /** When the store is full, drops expired records, then the oldest until it is 90 % full. */
  function makeSpace(): void {
    if (records.size < maxRecords) return;
    // Reading drops expired records.
    for (const key of records.keys()) readUnexpired(key);
    const target = Math.floor(maxRecords * 0.9);
    for (const key of records.keys()) {
      if (records.size <= target) return;
      drop(key);
    }
  }

  /** Returns the payload that the library sees. During the grace period, a used refresh token looks unused. */
  function payloadForLibrary(key: string, model: string): Payload | undefined {
    const payload = structuredClone(readUnexpired(key));
    const consumedAtMs = records.get(key)?.consumedAtMs;
    if (payload === undefined || consumedAtMs === undefined || model !== 'RefreshToken') return payload;
    if (now() >= consumedAtMs + graceSeconds(payload.clientId ?? '') * 1000) return payload;
    const { consumed: _, ...unused } = payload;
    return unused;
  }

  function adapterFor(model: string): RecordAdapter {
    const prefix = prefixOf(model);
    const keyOf = (id: string) => prefix + id;
    return {
      async upsert(id, payload, expiresIn) {
        save(keyOf(id), payload, expiresIn === undefined ? Number.POSITIVE_INFINITY : now() + expiresIn * 1000);
      },
      find: async (id) => payloadForLibrary(keyOf(id), model),
      findByUid: async (uid) => structuredClone(readUnexpired(keyByUid.get(uid))),
      async consume(id) {
        const payload = readUnexpired(keyOf(id));
        const record = records.get(keyOf(id));
        if (!payload || !record) return;
        record.consumedAtMs ??= now();
        payload.consumed = Math.floor(record.consumedAtMs / 1000);
      },
      async destroy(id) {
        drop(keyOf(id));
      },
      async revokeByGrantId(grantId) {
        for (const [key, { payload }] of records) {
          if (key.startsWith(prefix) && payload.grantId === grantId) drop(key);
        }
      },
    };
  }

  return {
    adapterFor,
    all(model) {
      const prefix = prefixOf(model);
      const keys = [...records.keys()].filter((key) => key.startsWith(prefix));
      return keys.flatMap((key) => {
        const payload = structuredClone(readUnexpired(key));
        return payload === undefined ? [] : [{ id: key.slice(prefix.length), payload }];
      });
    },
    endGrant(grantId) {
      for (const [key, { payload }] of records) if (payload.grantId === grantId) drop(key);
      drop(`Grant:${grantId}`);
    },
    endAccessTokens(accountId, clientId) {
      for (const [key, { payload }] of records) {
        const isMatch = payload.accountId === accountId && payload.clientId === clientId;
        if (isMatch && key.startsWith(prefixOf('AccessToken'))) drop(key);
      }
    },
    prolong(refreshToken, lifetimeSeconds) {
      const record = records.get(`RefreshToken:${refreshToken}`);
      if (record === undefined) return;
      const seconds = lifetimeSeconds(record.payload.iiat ?? 0);
      record.expiresAtMs = now() + seconds * 1000;
      // The library checks `exp` against the clock of the process.
      record.payload.exp = Math.floor(Date.now() / 1000) + seconds;
    },
  };
}
