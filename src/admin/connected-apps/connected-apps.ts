/** Makes the administration of connected apps: pages, API and check. The handlers stand in the files beside this one. */
import type { AdminParts } from '../admin.ts';
import { connectedAppApi } from './api.ts';
import { createConnectedAppChanges } from './changes.ts';
import { connectedAppCheckRoutes } from './check.ts';
import { connectedAppFacts } from './facts.ts';
import { connectedAppPages } from './pages.ts';
import { createProviderRegistration } from './provider-registration.ts';
import { createWithdraw } from './withdrawal.ts';

export function connectedAppRoutes(parts: AdminParts) {
  const { connectedApps, outbound, audit, grants, pages, publicUrl, clock } = parts;
  const { apps, registry, registration: atProvider, readProviderFacts: readProvider } = connectedApps;
  const { href: publicHref, basePath } = publicUrl;
  const { trail } = audit;
  const { examine } = outbound;
  const countConnections = grants.index.count;
  const facts = connectedAppFacts({ apps, registry, publicHref, countConnections });
  const withdraw = createWithdraw({ registration: atProvider, trail });
  const changes = createConnectedAppChanges({ apps, registry, trail, examine, withdraw, countConnections });
  const registerAt = atProvider.register;
  const registerAtProvider = createProviderRegistration({
    changes,
    trail,
    readProvider,
    registerAt,
    withdraw,
    publicHref,
  });
  return {
    pages: connectedAppPages({ facts, changes, registerAtProvider, readProvider, pages, clock, publicHref, basePath }),
    api: connectedAppApi({ facts, changes, registerAtProvider, publicHref }),
    check: connectedAppCheckRoutes(parts),
  };
}
