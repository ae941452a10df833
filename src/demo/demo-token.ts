/** The relay token that the demo's greeting shows. */
import { createRelayTokens } from '../gatehouse/relay/relay-token.ts';
import { newOpaqueTokenId } from '../shared/storage/opaque-token.ts';
import type { OpenedStorage } from '../shared/storage/storage.ts';
import { DAY_MS } from '../shared/time.ts';

/** The settings of a relay token that the demo's tokens leave alone. */
export const BARE_POLICY = {
  assertUser: false,
  fullScope: false,
  acceptIdTokens: false,
  networks: [],
  binCallsPerMonth: null,
};

/** @returns its text */
export async function createDemoToken({ store, sealedJson }: OpenedStorage): Promise<string> {
  const tokens = await createRelayTokens({ store, sealedJson, clock: Date.now });
  const { text } = await tokens.create(newOpaqueTokenId(), {
    name: 'Demo service',
    scopes: ['threads:read', 'connections:read', 'connect_links:create'],
    apps: ['platform'],
    users: 'all',
    ...BARE_POLICY,
    assertUser: true,
    expiresAt: Date.now() + DAY_MS,
  });
  await tokens.close();
  return text;
}
