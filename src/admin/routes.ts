/** Every route of the administration with its guard, on one screen, with the menu and the resources that handle them. */
import type { Route } from '../http/route-table.ts';
import type { AdminParts } from './admin.ts';
import { adminTokenRoutes } from './admin-tokens/routes.ts';
import { auditRoutes } from './audit/routes.ts';
import { adminBinRoutes } from './bin/routes.ts';
import { connectLinkRoutes } from './connect-links/routes.ts';
import { connectedAppRoutes } from './connected-apps/connected-apps.ts';
import { disconnectionRoutes } from './connections/disconnections.ts';
import { connectionImportRoutes } from './connections/imports.ts';
import { adminConnectionRoutes } from './connections/routes.ts';
import type { AdminGuards } from './guards.ts';
import { keyRoutes } from './keys/routes.ts';
import { overviewRoutes } from './overview/routes.ts';
import { policyRoutes } from './policy/routes.ts';
import { relayTokenRoutes } from './relay-tokens/routes.ts';
import { serviceAccountRoutes } from './service-accounts/routes.ts';
import { adminSessionRoutes } from './sessions/routes.ts';
import { adminSignInRoutes } from './sign-ins/routes.ts';
import { userRoutes } from './users/routes.ts';
import { webhookRoutes } from './webhooks/routes.ts';

/** The menu of the pages, with paths below `/admin`. A view names its entry by the path, as `menuPath`. */
export const MENU = [
  { path: '', label: 'Overview' },
  { path: 'connected-apps', label: 'Connected apps' },
  { path: 'relay-tokens', label: 'Relay tokens' },
  { path: 'policy', label: 'Policy check' },
  { path: 'service-accounts', label: 'Service accounts' },
  { path: 'users', label: 'Users' },
  { path: 'connections', label: 'Connections' },
  { path: 'sessions', label: 'Sessions' },
  { path: 'sign-ins', label: 'Sign-ins' },
  { path: 'audit', label: 'Audit trail' },
  { path: 'bin', label: 'BIN data' },
  { path: 'keys', label: 'Keys' },
  { path: 'webhooks', label: 'Webhooks' },
  { path: 'admin-tokens', label: 'Admin tokens' },
];

export type AdminResources = ReturnType<typeof adminResources>;

export function adminResources(parts: AdminParts) {
  return {
    overview: overviewRoutes(parts),
    connectedApps: connectedAppRoutes(parts),
    relayTokens: relayTokenRoutes(parts),
    policy: policyRoutes(parts),
    serviceAccounts: serviceAccountRoutes(parts),
    webhooks: webhookRoutes(parts),
    keys: keyRoutes(parts),
    adminTokens: adminTokenRoutes(parts),
    users: userRoutes(parts),
    sessions: adminSessionRoutes(parts),
    connections: adminConnectionRoutes(parts),
    disconnections: disconnectionRoutes(parts),
    connectionImports: connectionImportRoutes(parts),
    connectLinks: connectLinkRoutes(parts),
    signIns: adminSignInRoutes(parts),
    audit: auditRoutes(parts),
    bin: adminBinRoutes(parts),
  };
}

export function adminRoutes(to: AdminResources, { page, form, read, ask, write }: AdminGuards): Route[] {
  return [
    ['GET', '/admin', page, to.overview.page],
    ['GET', '/admin/api/overview', read, to.overview.overview],

    ['GET', '/admin/connected-apps', page, to.connectedApps.pages.list],
    ['GET', '/admin/register-app', page, to.connectedApps.pages.newForm],
    // `do` in the body: `read_provider`, `register_there`, or `save`.
    ['POST', '/admin/register-app', form, to.connectedApps.pages.register],
    ['GET', '/admin/connected-apps/:id', page, to.connectedApps.pages.one],
    // `do`: `read_provider`, `save`, `add_callback`, `disable`, `enable`, `delete`, or `delete_unreadable`.
    ['POST', '/admin/connected-apps/:id', form, to.connectedApps.pages.change],
    ['GET', '/admin/api/connected-apps', read, to.connectedApps.api.list],
    ['POST', '/admin/api/connected-apps', write, to.connectedApps.api.create],
    ['GET', '/admin/api/connected-apps/:id', read, to.connectedApps.api.one],
    ['PUT', '/admin/api/connected-apps/:id', write, to.connectedApps.api.replace],
    ['DELETE', '/admin/api/connected-apps/:id', write, to.connectedApps.api.remove],
    ['POST', '/admin/connected-apps/:id/check', form, to.connectedApps.check.checkByForm],
    ['POST', '/admin/api/connected-apps/:id/check', write, to.connectedApps.check.check],
    ['POST', '/admin/api/register-at-provider', write, to.connectedApps.api.registerAtProvider],
    ['POST', '/admin/api/callback-urls', ask, to.connectedApps.api.checkCallbackUrls],

    ['GET', '/admin/relay-tokens', page, to.relayTokens.page],
    ['GET', '/admin/relay-tokens/:id', page, to.relayTokens.onePage],
    ['POST', '/admin/relay-tokens', form, to.relayTokens.createByForm],
    ['POST', '/admin/relay-tokens/:id', form, to.relayTokens.changeByForm],
    ['POST', '/admin/relay-tokens/:id/rotate', form, to.relayTokens.rotateByForm],
    ['POST', '/admin/relay-tokens/:id/revoke', form, to.relayTokens.revokeByForm],
    ['GET', '/admin/api/relay-tokens', read, to.relayTokens.list],
    ['POST', '/admin/api/relay-tokens', write, to.relayTokens.create],
    ['GET', '/admin/api/relay-tokens/:id', read, to.relayTokens.one],
    ['PUT', '/admin/api/relay-tokens/:id', write, to.relayTokens.replace],
    ['DELETE', '/admin/api/relay-tokens/:id', write, to.relayTokens.revoke],
    ['POST', '/admin/api/relay-tokens/:id/rotate', write, to.relayTokens.rotate],
    ['GET', '/admin/policy', page, to.policy.page],
    ['POST', '/admin/api/policy/explain', ask, to.policy.explain],

    ['GET', '/admin/service-accounts', page, to.serviceAccounts.page],
    ['POST', '/admin/service-accounts', form, to.serviceAccounts.createByForm],
    ['POST', '/admin/service-accounts/:id/replace', form, to.serviceAccounts.replaceByForm],
    ['POST', '/admin/service-accounts/:id/remove', form, to.serviceAccounts.removeByForm],
    ['GET', '/admin/api/service-accounts', read, to.serviceAccounts.list],
    ['POST', '/admin/api/service-accounts', write, to.serviceAccounts.create],
    ['GET', '/admin/api/service-accounts/:id', read, to.serviceAccounts.one],
    ['PUT', '/admin/api/service-accounts/:id', write, to.serviceAccounts.replace],
    ['DELETE', '/admin/api/service-accounts/:id', write, to.serviceAccounts.remove],

    ['GET', '/admin/webhooks', page, to.webhooks.page],
    ['GET', '/admin/webhooks/:id', page, to.webhooks.onePage],
    ['POST', '/admin/webhooks', form, to.webhooks.createByForm],
    ['POST', '/admin/webhooks/:id', form, to.webhooks.changeByForm],
    ['POST', '/admin/webhooks/:id/remove', form, to.webhooks.removeByForm],
    ['GET', '/admin/api/webhooks', read, to.webhooks.list],
    ['POST', '/admin/api/webhooks', write, to.webhooks.create],
    ['GET', '/admin/api/webhooks/:id', read, to.webhooks.one],
    ['GET', '/admin/api/webhooks/:id/messages', read, to.webhooks.messages],
    ['PUT', '/admin/api/webhooks/:id', write, to.webhooks.replace],
    ['DELETE', '/admin/api/webhooks/:id', write, to.webhooks.remove],

    ['GET', '/admin/keys', page, to.keys.page],
    ['POST', '/admin/keys/rotate', form, to.keys.rotateByForm],
    ['GET', '/admin/api/keys', read, to.keys.overview],
    ['POST', '/admin/api/keys/rotate', write, to.keys.rotate],

    ['GET', '/admin/admin-tokens', page, to.adminTokens.page],
    ['POST', '/admin/admin-tokens', form, to.adminTokens.createByForm],
    ['POST', '/admin/admin-tokens/:id/revoke', form, to.adminTokens.revokeByForm],
    ['GET', '/admin/api/admin-tokens', read, to.adminTokens.list],
    ['POST', '/admin/api/admin-tokens', write, to.adminTokens.create],
    ['GET', '/admin/api/admin-tokens/:id', read, to.adminTokens.one],
    ['DELETE', '/admin/api/admin-tokens/:id', write, to.adminTokens.revoke],

    ['GET', '/admin/users', page, to.users.page],
    ['GET', '/admin/users/:id', page, to.users.onePage],
    ['POST', '/admin/users/:id/:change', form, to.users.changeByForm],
    ['GET', '/admin/api/users', read, to.users.list],
    ['GET', '/admin/api/users/:id', read, to.users.one],
    ['POST', '/admin/api/users/:id/sign-out', write, to.users.signOut],
    ['POST', '/admin/api/users/:id/disable', write, to.users.disable],
    ['POST', '/admin/api/users/:id/enable', write, to.users.enable],
    ['DELETE', '/admin/api/users/:id', write, to.users.remove],

    ['GET', '/admin/sessions', page, to.sessions.page],
    ['POST', '/admin/sessions/:id/end', form, to.sessions.endByForm],
    ['GET', '/admin/api/sessions', read, to.sessions.list],
    ['DELETE', '/admin/api/sessions/:id', write, to.sessions.end],

    ['GET', '/admin/connections', page, to.connections.page],
    ['POST', '/admin/connections/:id/end', form, to.disconnections.endByForm],
    ['POST', '/admin/connected-apps/:id/disconnect-everyone', form, to.disconnections.endAllByForm],
    ['GET', '/admin/api/connections', read, to.connections.list],
    // Before those with an id, which would take its name for one.
    ['POST', '/admin/api/connections/import', write, to.connectionImports.import],
    ['GET', '/admin/api/connections/:id', read, to.connections.one],
    ['DELETE', '/admin/api/connections/:id', write, to.disconnections.end],
    ['POST', '/admin/api/connected-apps/:id/disconnect-everyone', write, to.disconnections.endAll],
    ['GET', '/admin/api/connected-apps/:id/disconnect-everyone', read, to.disconnections.progress],
    ['GET', '/admin/api/revocations', read, to.connections.revocations],

    ['GET', '/admin/connect-links', page, to.connectLinks.page],
    ['POST', '/admin/connect-links/:id/revoke', form, to.connectLinks.revokeByForm],
    ['GET', '/admin/api/connect-links', read, to.connectLinks.list],
    ['GET', '/admin/api/connect-links/:id', read, to.connectLinks.one],
    ['DELETE', '/admin/api/connect-links/:id', write, to.connectLinks.revoke],

    ['GET', '/admin/sign-ins', page, to.signIns.page],
    ['GET', '/admin/sign-ins/:id', page, to.signIns.onePage],
    ['GET', '/admin/api/sign-ins', read, to.signIns.list],
    ['GET', '/admin/api/sign-ins/:id', read, to.signIns.one],

    ['GET', '/admin/audit', page, to.audit.page],
    ['GET', '/admin/api/audit', read, to.audit.list],

    ['GET', '/admin/bin', page, to.bin.page],
    ['GET', '/admin/api/bin', read, to.bin.overview],
  ];
}
