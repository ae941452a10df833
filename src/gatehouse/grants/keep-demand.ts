/** Remembers with a grant what the platform demands of the user's next sign-in. */
import { isDeepStrictEqual } from 'node:util';
import type { SignInDemand } from '../../shared/provider/sign-in-demand.ts';
import type { GrantStore } from './grant-store.ts';

/** A grant that is written more often meanwhile gets the demand of the next call. */
const MAX_ATTEMPTS = 3;

/**
 * Saves the demand with the grant of this consent, also after a refresh, which does not change how the user signed in.
 * A later consent may meet the demand. A demand that is stored already causes no write.
 */
export async function keepDemand(
  grants: Pick<GrantStore, 'loadStored' | 'save'>,
  { userId, appId, consentedAt }: { userId: string; appId: string; consentedAt: number },
  demand: SignInDemand,
): Promise<void> {
  for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts += 1) {
    const stored = await grants.loadStored(userId, appId);
    if (!stored || 'unreadable' in stored || stored.grant.consentedAt !== consentedAt) return;
    if (isDeepStrictEqual(stored.grant.demand, demand)) return;
    if ((await grants.save({ ...stored.grant, demand }, stored.version)) !== undefined) return;
  }
}
