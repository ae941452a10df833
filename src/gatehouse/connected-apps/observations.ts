/** Facts about each app's tokens that only real sign-ins and refreshes show, since metadata does not state them. */

import type { OnTokens } from '../../shared/provider/provider-client.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { HOUR_MS } from '../../shared/time.ts';

export interface Observation {
  /** Milliseconds since the epoch. */
  at: number;
  /**
   * Whether the last sign-in returned a refresh token. Absent before the first one: imported connections have no
   * sign-in.
   */
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

/** An unchanged observation is written again after this time. */
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
    const previous = latest.get(appId) ?? stored;
    const next = { ...previous, ...facts, at: clock() };
    latest.set(appId, next);
    const isChanged =
      !previous || Object.keys(facts).some((name) => previous[name as 'rotates'] !== next[name as 'rotates']);
    if (!isChanged && next.at - previous.at < REWRITE_INTERVAL_MS)
      return void latest.set(appId, { ...next, at: previous.at });
    const value = JSON.stringify({ ...(await read(appId)), ...latest.get(appId) });
    await store.write([{ put: keys.observation(appId), value }]);
  };

  const record: OnTokens = ({ id }, { refreshToken, expiresInSeconds }, sentToken) => {
    const hasToken = refreshToken !== undefined;
    const tokenFacts =
      sentToken === undefined ? { refreshToken: hasToken } : { rotates: hasToken && refreshToken !== sentToken };
    void save(id, { ...tokenFacts, expiresIn: expiresInSeconds !== undefined }).catch(() => undefined);
  };

  return { read, save, record };
}
