/** Owns what was seen of each app's tokens: facts that no provider describes and that only a real sign-in shows. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import type { ProviderClient } from './provider-client.ts';

export interface Observation {
  /** Milliseconds since the epoch. */
  at: number;
  /** Whether the last sign-in brought a refresh token. */
  refreshToken: boolean;
  /** Whether the token answer says how long the access token lasts. */
  expiresIn: boolean;
  /** Whether the last refresh brought a new refresh token; absent before the first. */
  rotates?: boolean;
}

export interface Observations {
  read(appId: string): Promise<Observation | undefined>;
  /** The same client; what it brings is noted on the way, and no call waits or fails for that. */
  watch(provider: ProviderClient): ProviderClient;
}

/** What stays the same is written again only so often. */
const AGAIN_MILLISECONDS = 3_600_000;

export function createObservations(parts: { store: Store; clock: () => number }): Observations {
  const { store, clock } = parts;
  const latest = new Map<string, Observation>();

  const read = async (appId: string): Promise<Observation | undefined> => {
    const record = await store.get(keys.observation(appId));
    return record && (JSON.parse(record.value) as Observation);
  };

  const note = async (appId: string, seen: Partial<Omit<Observation, 'at'>>): Promise<void> => {
    const stored = latest.has(appId) ? undefined : await read(appId);
    // More may have been noted while the store was asked.
    const known = latest.get(appId) ?? stored;
    const next = { refreshToken: false, expiresIn: false, ...known, ...seen, at: clock() };
    latest.set(appId, next);
    const changed = !known || Object.keys(seen).some((name) => known[name as 'rotates'] !== next[name as 'rotates']);
    if (!changed && next.at - known.at < AGAIN_MILLISECONDS) return void latest.set(appId, { ...next, at: known.at });
    await store.write([{ put: keys.observation(appId), value: JSON.stringify(next) }]);
  };
  const quietly = (appId: string, seen: Partial<Omit<Observation, 'at'>>) =>
    void note(appId, seen).catch(() => undefined);

  return {
    read,
    watch: (provider) => ({
      ...provider,
      async exchangeCode(app, callback, request) {
        const answer = await provider.exchangeCode(app, callback, request);
        quietly(app.id, {
          refreshToken: answer.refreshToken !== undefined,
          expiresIn: answer.expiresInSeconds !== undefined,
        });
        return answer;
      },
      async refresh(app, request) {
        const outcome = await provider.refresh(app, request);
        if (outcome.kind === 'tokens') {
          const { refreshToken: next, expiresInSeconds } = outcome.answer;
          quietly(app.id, {
            rotates: next !== undefined && next !== request.refreshToken,
            expiresIn: expiresInSeconds !== undefined,
          });
        }
        return outcome;
      },
    }),
  };
}
