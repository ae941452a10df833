/** Remembers with a grant what the platform demands of the user's next sign-in. */
import { isDeepStrictEqual } from 'node:util';
import type { SignInDemand } from '../../shared/provider/sign-in-demand.ts';
import type { GrantStore } from './grant-store.ts';

/** A grant that is written more often meanwhile gets the demand of the next call. */
const MAX_ATTEMPTS = 3;

/**
 * Saves the demand with the grant that has this access token: a newer one may meet it. A demand that is stored already
 * causes no write.
 */
export async function keepDemand(
  grants: Pick<GrantStore, 'loadStored' | 'save'>,
  { userId, appId, accessToken }: { userId: string; appId: string; accessToken: string },
  demand: SignInDemand,
): Promise<void> {
  for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts += 1) {
    const stored = await grants.loadStored(userId, appId);
    if (!stored || 'unreadable' in stored || stored.grant.accessToken !== accessToken) return;
    if (isDeepStrictEqual(stored.grant.demand, demand)) return;
    if ((await grants.save({ ...stored.grant, demand }, stored.version)) !== undefined) return;
  }
}
