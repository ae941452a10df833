/** Every route of the administration with its guard, the menu, and the resources that handle the routes. */
import type { Route } from '../../shared/http/route-table.ts';
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
import type { AdminGuards } from './guards.ts';
import { keyRoutes } from './keys/routes.ts';
import { overviewRoutes } from './overview/routes.ts';
import type { Menu } from './page.ts';
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

/**
 * The sections of the menu, each with its tabs. `path` is below `/admin`. A view names its tab by the path, as
 * `menuPath`.
 */
export const MENU: Menu = [
  { label: 'Overview', icon: 'overview', tabs: [{ path: '', label: 'Overview' }] },
  {
    label: 'Users',
    icon: 'users',
    tabs: [
      { path: 'users', label: 'Users' },
      { path: 'sessions', label: 'Sessions' },
    ],
  },
  {
    label: 'Apps',
    icon: 'apps',
    tabs: [
      { path: 'connected-apps', label: 'Connected apps' },
      { path: 'connections', label: 'Connections' },
      { path: 'connect-links', label: 'Connect links' },
      { path: 'bin', label: 'BIN data' },
    ],
  },
  {
    label: 'Services',
    icon: 'services',
    tabs: [
      { path: 'relay-tokens', label: 'Relay tokens' },
      { path: 'service-accounts', label: 'Service accounts' },
      { path: 'webhooks', label: 'Webhooks' },
      { path: 'policy', label: 'Test a call' },
    ],
  },
  {
    label: 'Activity',
    icon: 'activity',
    tabs: [
      { path: 'sign-ins', label: 'Sign-ins' },
      { path: 'audit', label: 'Audit' },
    ],
  },
  {
    label: 'Settings',
    icon: 'settings',
    tabs: [
      { path: 'keys', label: 'Keys' },
      { path: 'admin-tokens', label: 'Admin tokens' },
      { path: 'docs', label: 'API reference', href: '/docs' },
    ],
  },
];

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

export function adminRoutes(to: AdminResources, { page, form, upload, read, query, write }: AdminGuards): Route[] {
  return [
    ['GET', '/admin', page, to.overview.page],
    ['GET', '/admin/api/overview', read, to.overview.overview],
    ['GET', '/admin/search', page, to.search.page],
    ['POST', '/admin/search', form, to.search.submit],
    ['POST', '/admin/search/list', form, to.search.submitList],
    ['GET', '/admin/api/search', read, to.search.api],

    ['GET', '/admin/connected-apps', page, to.connectedApps.pages.list],
    ['GET', '/admin/register-app', page, to.connectedApps.wizard.page],
    // `do` in the body: `read_provider`, `use_issuer`, `by_hand`, `back`, `register_there`, or `save`.
    ['POST', '/admin/register-app', form, to.connectedApps.wizard.submit],
    ['GET', '/admin/connected-apps/:id', page, to.connectedApps.pages.detail],
    // `do`: `read_provider`, `save`, `add_callback`, or `enable`.
    ['POST', '/admin/connected-apps/:id', form, to.connectedApps.pages.change],
    ['GET', '/admin/connected-apps/:id/disable', page, to.connectedApps.questions.disablePage],
    ['POST', '/admin/connected-apps/:id/disable', form, to.connectedApps.questions.disable],
    ['GET', '/admin/connected-apps/:id/delete', page, to.connectedApps.questions.deletePage],
    ['POST', '/admin/connected-apps/:id/delete', form, to.connectedApps.questions.delete],
    ['GET', '/admin/api/connected-apps', read, to.connectedApps.api.list],
    ['POST', '/admin/api/connected-apps', write, to.connectedApps.api.create],
    ['GET', '/admin/api/connected-apps/:id', read, to.connectedApps.api.read],
    ['PUT', '/admin/api/connected-apps/:id', write, to.connectedApps.api.replace],
    ['DELETE', '/admin/api/connected-apps/:id', write, to.connectedApps.api.remove],
    ['GET', '/admin/connected-apps/:id/check', page, to.connectedApps.check.page],
    ['POST', '/admin/connected-apps/:id/check', form, to.connectedApps.check.checkByForm],
    ['POST', '/admin/connected-apps/:id/try', form, to.signIn.tryApp, { budget: to.signIn.startBudget }],
    ['POST', '/admin/api/connected-apps/:id/check', write, to.connectedApps.check.check],
    ['POST', '/admin/api/register-at-provider', write, to.connectedApps.api.registerAtProvider],
    ['POST', '/admin/api/callback-urls', query, to.connectedApps.api.checkCallbackUrls],

    ['GET', '/admin/relay-tokens', page, to.relayTokens.page],
    // Before the routes with an id, which would match these.
    ['GET', '/admin/relay-tokens/new', page, to.relayTokens.newPage],
    ['GET', '/admin/relay-tokens/revoke', page, to.relayTokens.revokePage],
    ['POST', '/admin/relay-tokens/revoke', form, to.relayTokens.revokeByForm],
    ['GET', '/admin/relay-tokens/:id', page, to.relayTokens.detailPage],
    ['POST', '/admin/relay-tokens', form, to.relayTokens.createByForm],
    ['POST', '/admin/relay-tokens/:id', form, to.relayTokens.changeByForm],
    ['POST', '/admin/relay-tokens/:id/rotate', form, to.relayTokens.rotateByForm],
    ['GET', '/admin/relay-tokens/:id/edit', page, to.relayTokens.editPage],
    ['GET', '/admin/relay-tokens/:id/rotate', page, to.relayTokens.rotatePage],
    ['GET', '/admin/relay-tokens/:id/revoke', page, to.relayTokens.revokePage],
    ['POST', '/admin/relay-tokens/:id/revoke', form, to.relayTokens.revokeByForm],
    ['GET', '/admin/api/relay-tokens', read, to.relayTokens.list],
    ['POST', '/admin/api/relay-tokens', write, to.relayTokens.create],
    ['GET', '/admin/api/relay-tokens/:id', read, to.relayTokens.read],
    ['PUT', '/admin/api/relay-tokens/:id', write, to.relayTokens.replace],
    ['DELETE', '/admin/api/relay-tokens/:id', write, to.relayTokens.revoke],
    ['POST', '/admin/api/relay-tokens/:id/rotate', write, to.relayTokens.rotate],
    ['GET', '/admin/policy', page, to.policy.page],
    ['GET', '/admin/relay-tokens/:id/test', page, to.policy.page],
    ['POST', '/admin/api/policy/explain', query, to.policy.explain],

    ['GET', '/admin/service-accounts', page, to.serviceAccounts.page],
    ['GET', '/admin/service-accounts/new', page, to.serviceAccounts.newPage],
    ['POST', '/admin/service-accounts', form, to.serviceAccounts.createByForm],
    ['GET', '/admin/service-accounts/:id/replace', page, to.serviceAccounts.replacePage],
    ['POST', '/admin/service-accounts/:id/replace', form, to.serviceAccounts.replaceByForm],
    ['GET', '/admin/service-accounts/:id/remove', page, to.serviceAccounts.removePage],
    ['POST', '/admin/service-accounts/:id/remove', form, to.serviceAccounts.removeByForm],
    ['GET', '/admin/api/service-accounts', read, to.serviceAccounts.list],
    ['POST', '/admin/api/service-accounts', write, to.serviceAccounts.create],
    ['GET', '/admin/api/service-accounts/:id', read, to.serviceAccounts.read],
    ['PUT', '/admin/api/service-accounts/:id', write, to.serviceAccounts.replace],
    ['DELETE', '/admin/api/service-accounts/:id', write, to.serviceAccounts.remove],

    ['GET', '/admin/webhooks', page, to.webhooks.page],
    // Before the routes with an id, which would match these.
    ['GET', '/admin/webhooks/new', page, to.webhooks.newPage],
    ['GET', '/admin/webhooks/remove', page, to.webhooks.removePage],
    ['POST', '/admin/webhooks/remove', form, to.webhooks.removeByForm],
    ['GET', '/admin/webhooks/:id', page, to.webhooks.detailPage],
    ['POST', '/admin/webhooks', form, to.webhooks.createByForm],
    ['POST', '/admin/webhooks/:id', form, to.webhooks.changeByForm],
    ['GET', '/admin/webhooks/:id/remove', page, to.webhooks.removePage],
    ['POST', '/admin/webhooks/:id/rotate', form, to.webhooks.rotateByForm],
    ['POST', '/admin/webhooks/:id/test', form, to.webhooks.messages.testByForm],
    ['GET', '/admin/webhooks/:id/messages/:message', page, to.webhooks.messages.detailPage],
    ['POST', '/admin/webhooks/:id/messages/:message/resend', form, to.webhooks.messages.resendByForm],
    ['POST', '/admin/webhooks/:id/remove', form, to.webhooks.removeByForm],
    ['GET', '/admin/api/webhooks', read, to.webhooks.list],
    ['POST', '/admin/api/webhooks', write, to.webhooks.create],
    ['GET', '/admin/api/webhooks/:id', read, to.webhooks.read],
    ['GET', '/admin/api/webhooks/:id/messages', read, to.webhooks.messages.list],
    ['GET', '/admin/api/webhooks/:id/messages/:message', read, to.webhooks.messages.read],
    ['POST', '/admin/api/webhooks/:id/messages/:message/resend', write, to.webhooks.messages.resend],
    ['POST', '/admin/api/webhooks/:id/test', write, to.webhooks.messages.test],
    ['POST', '/admin/api/webhooks/:id/rotate', write, to.webhooks.rotate],
    ['PUT', '/admin/api/webhooks/:id', write, to.webhooks.replace],
    ['DELETE', '/admin/api/webhooks/:id', write, to.webhooks.remove],

    ['GET', '/admin/keys', page, to.keys.page],
    ['POST', '/admin/keys/rotate', form, to.keys.rotateByForm],
    ['GET', '/admin/api/keys', read, to.keys.overview],
    ['POST', '/admin/api/keys/rotate', write, to.keys.rotate],
    ['GET', '/admin/keys/rotate-encryption', page, to.keys.rotateEncryptionByForm.page],
    ['POST', '/admin/keys/rotate-encryption', form, to.keys.rotateEncryptionByForm.form],
    ['POST', '/admin/api/keys/rotate-encryption', write, to.keys.rotateEncryption],

    ['GET', '/admin/admin-tokens', page, to.adminTokens.page],
    ['GET', '/admin/admin-tokens/new', page, to.adminTokens.newPage],
    ['POST', '/admin/admin-tokens', form, to.adminTokens.createByForm],
    ['GET', '/admin/admin-tokens/revoke', page, to.adminTokens.revokePage],
    ['POST', '/admin/admin-tokens/revoke', form, to.adminTokens.revokeByForm],
    ['GET', '/admin/admin-tokens/:id/revoke', page, to.adminTokens.revokePage],
    ['POST', '/admin/admin-tokens/:id/revoke', form, to.adminTokens.revokeByForm],
    ['GET', '/admin/api/admin-tokens', read, to.adminTokens.list],
    ['POST', '/admin/api/admin-tokens', write, to.adminTokens.create],
    ['GET', '/admin/api/admin-tokens/:id', read, to.adminTokens.read],
    ['DELETE', '/admin/api/admin-tokens/:id', write, to.adminTokens.revoke],

    ['GET', '/admin/users', page, to.users.page],
    ['GET', '/admin/users/:id', page, to.users.detailPage],
    ['GET', '/admin/users/:id/sign-out', page, to.users.signOutPage],
    ['POST', '/admin/users/:id/sign-out', form, to.users.signOutByForm],
    ['GET', '/admin/users/:id/disable', page, to.users.disablePage],
    ['POST', '/admin/users/:id/disable', form, to.users.disableByForm],
    ['POST', '/admin/users/:id/enable', form, to.users.enableByForm],
    ['GET', '/admin/users/:id/delete', page, to.users.deletePage],
    ['POST', '/admin/users/:id/delete', form, to.users.deleteByForm],
    ['GET', '/admin/api/users', read, to.users.list],
    ['GET', '/admin/api/users/:id', read, to.users.read],
    ['POST', '/admin/api/users/:id/sign-out', write, to.users.signOut],
    ['POST', '/admin/api/users/:id/disable', write, to.users.disable],
    ['POST', '/admin/api/users/:id/enable', write, to.users.enable],
    ['DELETE', '/admin/api/users/:id', write, to.users.remove],

    ['GET', '/admin/sessions', page, to.sessions.page],
    ['GET', '/admin/sessions/end', page, to.sessions.endPage],
    ['POST', '/admin/sessions/end', form, to.sessions.endByForm],
    ['GET', '/admin/sessions/:id/end', page, to.sessions.endPage],
    ['POST', '/admin/sessions/:id/end', form, to.sessions.endByForm],
    ['GET', '/admin/api/sessions', read, to.sessions.list],
    ['DELETE', '/admin/api/sessions/:id', write, to.sessions.end],

    ['GET', '/admin/connections', page, to.connections.page],
    ['GET', '/admin/connections/end', page, to.disconnections.endPage],
    ['POST', '/admin/connections/end', form, to.disconnections.endByForm],
    ['GET', '/admin/connections/:id/end', page, to.disconnections.endPage],
    ['POST', '/admin/connections/:id/end', form, to.disconnections.endByForm],
    ['GET', '/admin/connected-apps/:id/disconnect-everyone', page, to.disconnections.endAllPage],
    ['POST', '/admin/connected-apps/:id/disconnect-everyone', form, to.disconnections.endAllByForm],
    ['GET', '/admin/api/connections', read, to.connections.list],
    // Before the routes with an id, which would match it.
    ['POST', '/admin/api/connections/import', write, to.connectionImports.import],
    ['GET', '/admin/api/connections/:id', read, to.connections.read],
    ['DELETE', '/admin/api/connections/:id', write, to.disconnections.end],
    ['POST', '/admin/api/connected-apps/:id/disconnect-everyone', write, to.disconnections.endAll],
    ['GET', '/admin/api/connected-apps/:id/disconnect-everyone', read, to.disconnections.progress],
    ['GET', '/admin/api/revocations', read, to.connections.revocations],

    ['GET', '/admin/connect-links', page, to.connectLinks.page],
    ['GET', '/admin/connect-links/revoke', page, to.connectLinks.revokePage],
    ['POST', '/admin/connect-links/revoke', form, to.connectLinks.revokeByForm],
    ['GET', '/admin/connect-links/:id/revoke', page, to.connectLinks.revokePage],
    ['POST', '/admin/connect-links/:id/revoke', form, to.connectLinks.revokeByForm],
    ['GET', '/admin/api/connect-links', read, to.connectLinks.list],
    ['GET', '/admin/api/connect-links/:id', read, to.connectLinks.read],
    ['DELETE', '/admin/api/connect-links/:id', write, to.connectLinks.revoke],

    ['GET', '/admin/sign-ins', page, to.signIns.page],
    ['GET', '/admin/sign-ins/:id', page, to.signIns.detailPage],
    ['GET', '/admin/api/sign-ins', read, to.signIns.list],
    ['GET', '/admin/api/sign-ins/:id', read, to.signIns.read],

    ['GET', '/admin/api/users/:id/timeline', read, to.timelines.ofUser],
    ['GET', '/admin/api/connected-apps/:id/timeline', read, to.timelines.ofApp],
    ['GET', '/admin/api/relay-tokens/:id/timeline', read, to.timelines.ofToken],

    ['GET', '/admin/audit', page, to.audit.page],
    ['GET', '/admin/api/audit', read, to.audit.list],

    ['GET', '/admin/bin', page, to.bin.page],
    ['GET', '/admin/api/bin', read, to.bin.overview],
    ['GET', '/admin/bin/import', page, to.binUploads.newPage],
    ['POST', '/admin/bin/import', upload, to.binUploads.uploadByForm],
    ['GET', '/admin/bin/uploads/:id', page, to.binUploads.preview],
    ['POST', '/admin/bin/uploads/:id/import', form, to.binUploads.importByForm],
    ['POST', '/admin/bin/uploads/:id/discard', form, to.binUploads.discardByForm],
    ['GET', '/admin/bin/rollback', page, to.binRollback.page],
    ['POST', '/admin/bin/rollback', form, to.binRollback.byForm],
    ['POST', '/admin/api/bin/uploads', write, to.binUploads.upload],
    ['GET', '/admin/api/bin/uploads/:id', read, to.binUploads.read],
    ['POST', '/admin/api/bin/uploads/:id/import', write, to.binUploads.import],
    ['DELETE', '/admin/api/bin/uploads/:id', write, to.binUploads.discard],
    ['POST', '/admin/api/bin/rollback', write, to.binRollback.byApi],
  ];
}
