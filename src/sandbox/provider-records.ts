/** Owns what the identity provider remembers: oidc-provider's records, in memory, for as long as the process lives. */

export type Payload = Record<string, unknown> & {
  uid?: string;
  grantId?: string;
  consumed?: number;
  clientId?: string;
  accountId?: string;
  /** When the first refresh token of this line was given. */
  iiat?: number;
};

interface Kept {
  payload: Payload;
  expiresAtMs: number;
  /** When it was used first. */
  consumedAtMs?: number;
}

/** The adapter interface of oidc-provider, as far as its enabled features call it. */
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
  /** Copies of everything of a kind that is alive, by its id, oldest first. */
  all(model: string): { id: string; payload: Payload }[];
  /** Ends a grant with every token and code that came of it. */
  endGrant(grantId: string): void;
  /** A refresh token that was used counts on. @param secondsFrom how long, from when its line began (seconds since 1970) */
  prolong(refreshToken: string, secondsFrom: (signedInAtSeconds: number) => number): void;
}

/**
 * The library's own memory store holds 1,000 records and then forgets live grants without a word, which a long test
 * reaches; this one drops what has expired, and the oldest only beyond `maxRecords`.
 * @param parts `graceSeconds`: how long a refresh token of an app that was used may be used again just now, counted from
 *   the first use
 */
export function createProviderRecords(parts: {
  now: () => number;
  maxRecords: number;
  graceSeconds?: (clientId: string) => number;
}): ProviderRecords {
  const { now, maxRecords, graceSeconds = () => 0 } = parts;
  const kept = new Map<string, Kept>();
  const keyByUid = new Map<string, string>();

  function drop(key: string): void {
    const uid = kept.get(key)?.payload.uid;
    kept.delete(key);
    if (uid !== undefined && keyByUid.get(uid) === key) keyByUid.delete(uid);
  }

  function live(key: string | undefined): Payload | undefined {
    const record = key === undefined ? undefined : kept.get(key);
    if (key === undefined || record === undefined) return undefined;
    if (record.expiresAtMs > now()) return record.payload;
    drop(key);
    return undefined;
  }

  function keep(key: string, payload: Payload, expiresAtMs: number): void {
    // Dropped first, so that what was written last stands last in the order of eviction.
    drop(key);
    if (kept.size >= maxRecords) makeRoom();
    kept.set(key, { payload: structuredClone(payload), expiresAtMs });
    if (payload.uid !== undefined) keyByUid.set(payload.uid, key);
  }

  function makeRoom(): void {
    for (const key of [...kept.keys()]) live(key);
    const tenth = Math.ceil(maxRecords / 10);
    for (const key of [...kept.keys()].slice(0, Math.max(0, kept.size - maxRecords + tenth))) drop(key);
  }

  /** As the library is to see it: within the grace, a refresh token that was used looks as if it was not. */
  function shown(key: string, model: string): Payload | undefined {
    const payload = structuredClone(live(key));
    const consumedAtMs = kept.get(key)?.consumedAtMs;
    if (payload === undefined || consumedAtMs === undefined || model !== 'RefreshToken') return payload;
    if (now() >= consumedAtMs + graceSeconds(payload.clientId ?? '') * 1000) return payload;
    const { consumed: _, ...unused } = payload;
    return unused;
  }

  function adapterFor(model: string): RecordAdapter {
    const keyOf = (id: string) => `${model}:${id}`;
    return {
      async upsert(id, payload, expiresIn) {
        keep(keyOf(id), payload, expiresIn === undefined ? Number.POSITIVE_INFINITY : now() + expiresIn * 1000);
      },
      find: async (id) => shown(keyOf(id), model),
      findByUid: async (uid) => structuredClone(live(keyByUid.get(uid))),
      async consume(id) {
        const payload = live(keyOf(id));
        const record = kept.get(keyOf(id));
        if (!payload || !record) return;
        record.consumedAtMs ??= now();
        payload.consumed = Math.floor(record.consumedAtMs / 1000);
      },
      async destroy(id) {
        drop(keyOf(id));
      },
      async revokeByGrantId(grantId) {
        for (const [key, { payload }] of kept) {
          if (key.startsWith(keyOf('')) && payload.grantId === grantId) drop(key);
        }
      },
    };
  }

  return {
    adapterFor,
    all(model) {
      const ids = [...kept.keys()]
        .filter((key) => key.startsWith(`${model}:`))
        .map((key) => key.slice(model.length + 1));
      return ids.flatMap((id) => {
        const payload = structuredClone(live(`${model}:${id}`));
        return payload === undefined ? [] : [{ id, payload }];
      });
    },
    endGrant(grantId) {
      for (const [key, { payload }] of kept) if (payload.grantId === grantId) drop(key);
      drop(`Grant:${grantId}`);
    },
    prolong(refreshToken, secondsFrom) {
      const record = kept.get(`RefreshToken:${refreshToken}`);
      if (record === undefined) return;
      const seconds = secondsFrom(record.payload.iiat ?? 0);
      record.expiresAtMs = now() + seconds * 1000;
      // The library reads the end of a token by the clock of the process.
      record.payload.exp = Math.floor(Date.now() / 1000) + seconds;
    },
  };
}
