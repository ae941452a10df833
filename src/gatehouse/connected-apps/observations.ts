/** Facts about each app's tokens that only real sign-ins and refreshes show, since metadata does not state them. */

import type { OnTokens } from '../../shared/provider/provider-client.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { HOUR_MS } from '../../shared/time.ts';

export interface Observation {
  /** Milliseconds since the epoch. */
  at: number;
  /** Whether the last sign-in returned a refresh token. Absent before the first one: imported connections have no sign-in. */
  refreshToken?: boolean;
  /** Whether token responses have `expires_in`. */
  expiresIn: boolean;
  /** Whether the last refresh returned a new refresh token; absent before the first. */
  rotates?: boolean;
}

export interface Observations {
  read(appId: string): Promise<Observation | undefined>;
  /** Adds these facts to the stored ones. */
  save(appId: string, facts: Omit<Observation, 'at'>): Promise<void>;
  /** Records what a token response shows, in the background. */
  record: OnTokens;
}

/** How often an unchanged observation is written again. */
const REWRITE_INTERVAL_MS = HOUR_MS;

export function createObservations(parts: { store: Store; clock: () => number }): Observations {
  const { store, clock } = parts;
  const latest = new Map<string, Observation>();

  const read = async (appId: string): Promise<Observation | undefined> => {
    const stored = await store.get(keys.observation(appId));
    return stored && (JSON.parse(stored.value) as Observation);
  };

  const save = async (appId: string, facts: Omit<Observation, 'at'>): Promise<void> => {
    const stored = latest.has(appId) ? undefined : await read(appId);
    // Another call may have recorded something during the read.
    const before = latest.get(appId) ?? stored;
    const next = { ...before, ...facts, at: clock() };
    latest.set(appId, next);
    const isChanged =
      !before || Object.keys(facts).some((name) => before[name as 'rotates'] !== next[name as 'rotates']);
    if (!isChanged && next.at - before.at < REWRITE_INTERVAL_MS)
      return void latest.set(appId, { ...next, at: before.at });
    const value = JSON.stringify({ ...(await read(appId)), ...latest.get(appId) });
    await store.write([{ put: keys.observation(appId), value }]);
  };

  const record: OnTokens = ({ id }, { refreshToken, expiresInSeconds }, sent) => {
    const hasToken = refreshToken !== undefined;
    const tokenFacts = sent === undefined ? { refreshToken: hasToken } : { rotates: hasToken && refreshToken !== sent };
    void save(id, { ...tokenFacts, expiresIn: expiresInSeconds !== undefined }).catch(() => undefined);
  };

  return { read, save, record };
}
