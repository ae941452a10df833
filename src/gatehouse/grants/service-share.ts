/** Limits how much of a provider's slots services use for refreshes (R134). */
import { type Outbound, OutboundError } from '../../shared/outbound/outbound.ts';
import { type ConnectedApp, tokenOriginOf } from '../../shared/provider/connected-app.ts';
import type { ProviderClient } from '../../shared/provider/provider-client.ts';

/**
 * Does work that may refresh a grant once the service has a slot. The slot comes before the refresh, so a user's
 * request for the same grant does not wait for it.
 * @param relayTokenId undefined for a user, whose work starts at once
 * @returns undefined if the service gets no slot in time
 */
export type InServiceShare = <T>(
  app: ConnectedApp,
  relayTokenId: string | undefined,
  work: () => Promise<T>,
) => Promise<{ value: T } | undefined>;

export function createServiceShare(
  outbound: Pick<Outbound, 'runInServiceShare'>,
  provider: Pick<ProviderClient, 'readMetadata' | 'tokenOrigin'>,
): InServiceShare {
  /** Returns the origin of the token endpoint. If it is not known, reads it within the share of the issuer's origin. */
  const originOf = async (app: ConnectedApp, relayTokenId: string): Promise<string> => {
    const knownOrigin = provider.tokenOrigin(app);
    if (knownOrigin !== undefined) return knownOrigin;
    await outbound.runInServiceShare(tokenOriginOf(app), relayTokenId, () => provider.readMetadata(app));
    return provider.tokenOrigin(app) ?? tokenOriginOf(app);
  };

  return async (app, relayTokenId, work) => {
    if (relayTokenId === undefined) return { value: await work() };
    try {
      return { value: await outbound.runInServiceShare(await originOf(app, relayTokenId), relayTokenId, work) };
    } catch (error) {
      if (error instanceof OutboundError && error.reason === 'busy') return undefined;
      throw error;
    }
  };
}
