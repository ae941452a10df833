/** Creates the relay token that the demo prints. */
import { createRelayTokens } from '../gatehouse/relay/relay-token.ts';
import { CURRENT_THREAD } from '../shared/provider/app-routes.ts';
import { newOpaqueTokenId } from '../shared/storage/opaque-token.ts';
import type { OpenedStorage } from '../shared/storage/storage.ts';
import { DAY_MS } from '../shared/time.ts';
import { ROUTES } from './apps.ts';

/** The default settings of the demo's relay tokens. */
export const DEFAULT_POLICY = {
  assertUser: false,
  fullScope: false,
  acceptIdTokens: false,
  routes: [],
  networks: [],
  binCallsPerMonth: null,
};

/** @returns the text of the token */
export async function createDemoToken({ store, sealedJson }: OpenedStorage): Promise<string> {
  const tokens = await createRelayTokens({ store, sealedJson, clock: Date.now });
  const { text } = await tokens.create(newOpaqueTokenId(), {
    name: 'Demo service',
    scopes: ['threads:read', 'api:call', 'connections:read', 'connect_links:create'],
    apps: ['platform'],
    users: 'all',
    ...DEFAULT_POLICY,
    routes: [CURRENT_THREAD, ...ROUTES.map(({ name }) => name)],
    assertUser: true,
    expiresAt: Date.now() + DAY_MS,
  });
  await tokens.close();
  return text;
}
