/** The resources of the administration, whose handlers the routes name. */
import { adminTokenRoutes } from './admin-tokens/routes.ts';
import { auditRoutes } from './audit/routes.ts';
import { binRollbackRoutes } from './bin/rollback.ts';
import { adminBinRoutes } from './bin/routes.ts';
import { binUploadRoutes } from './bin/uploads.ts';
import { connectLinkRoutes } from './connect-links/routes.ts';
import { connectedAppRoutes } from './connected-apps/connected-apps.ts';
import { disconnectionRoutes } from './connections/disconnections.ts';
import { connectionImportRoutes } from './connections/imports.ts';
import { adminConnectionRoutes } from './connections/routes.ts';
import { keyRoutes } from './keys/routes.ts';
import { overviewRoutes } from './overview/routes.ts';
import type { AdminParts } from './parts.ts';
import { policyRoutes } from './policy/routes.ts';
import { relayTokenRoutes } from './relay-tokens/routes.ts';
import { searchRoutes } from './search/routes.ts';
import { serviceAccountRoutes } from './service-accounts/routes.ts';
import { adminSessionRoutes } from './sessions/routes.ts';
import { adminSignInRoutes } from './sign-ins/routes.ts';
import { timelineRoutes } from './timeline/routes.ts';
import { userRoutes } from './users/routes.ts';
import { webhookRoutes } from './webhooks/routes.ts';

/** The handlers of each resource. */
export type AdminResources = ReturnType<typeof adminResources>;

export function adminResources(parts: AdminParts) {
  // The search results have the same order.
  const withRecords = {
    relayTokens: relayTokenRoutes(parts),
    serviceAccounts: serviceAccountRoutes(parts),
    webhooks: webhookRoutes(parts),
    connectLinks: connectLinkRoutes(parts),
    adminTokens: adminTokenRoutes(parts),
  };
  const finders = Object.values(withRecords).map(({ finder }) => finder);
  return {
    ...withRecords,
    overview: overviewRoutes(parts),
    search: searchRoutes(parts, finders),
    connectedApps: connectedAppRoutes(parts),
    signIn: parts.signIn.routes,
    policy: policyRoutes(parts),
    keys: keyRoutes(parts),
    users: userRoutes(parts),
    sessions: adminSessionRoutes(parts),
    connections: adminConnectionRoutes(parts),
    disconnections: disconnectionRoutes(parts),
    connectionImports: connectionImportRoutes(parts),
    signIns: adminSignInRoutes(parts),
    timelines: timelineRoutes(parts),
    audit: auditRoutes(parts),
    bin: adminBinRoutes(parts),
    binUploads: binUploadRoutes(parts),
    binRollback: binRollbackRoutes(parts),
  };
}
