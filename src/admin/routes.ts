/** The list of every route of the administration, with its guard, on one screen. */
import type { Route } from '../http/route-table.ts';
import type { AdminTokenRoutes } from './admin-tokens/routes.ts';
import type { AuditRoutes } from './audit/routes.ts';
import type { BinAdminRoutes } from './bin/routes.ts';
import type { ConnectedAppApi } from './connected-apps/api.ts';
import type { ConnectedAppCheckRoutes } from './connected-apps/check.ts';
import type { ConnectedAppPages } from './connected-apps/pages.ts';
import type { ProviderRegistrationApi } from './connected-apps/provider-registration.ts';
import type { DisconnectionRoutes } from './connections/disconnections.ts';
import type { AdminConnectionRoutes } from './connections/routes.ts';
import type { AdminGuards } from './guards.ts';
import type { KeyRoutes } from './keys/routes.ts';
import type { OverviewRoutes } from './overview/routes.ts';
import type { PolicyRoutes } from './policy/routes.ts';
import type { RelayTokenRoutes } from './relay-tokens/routes.ts';
import type { ServiceAccountRoutes } from './service-accounts/routes.ts';
import type { AdminSessionRoutes } from './sessions/routes.ts';
import type { SignInAdminRoutes } from './sign-ins/routes.ts';
import type { UserRoutes } from './users/routes.ts';
import type { WebhookApi } from './webhooks/api.ts';
import type { WebhookPages } from './webhooks/pages.ts';

/** A noun for each room of handlers: pages first, then its calls of the API. */
export interface AdminNouns {
  adminTokens: AdminTokenRoutes;
  audit: AuditRoutes;
  connections: AdminConnectionRoutes;
  disconnections: DisconnectionRoutes;
  overview: OverviewRoutes;
  sessions: AdminSessionRoutes;
  signIns: SignInAdminRoutes;
  users: UserRoutes;
  bin: BinAdminRoutes;
  connectedApps: ConnectedAppPages;
  connectedAppApi: ConnectedAppApi;
  connectedAppCheck: ConnectedAppCheckRoutes;
  keys: KeyRoutes;
  policy: PolicyRoutes;
  providerRegistration: ProviderRegistrationApi;
  relayTokens: RelayTokenRoutes;
  serviceAccounts: ServiceAccountRoutes;
  webhooks: WebhookPages;
  webhookApi: WebhookApi;
}

export function adminRoutes(to: AdminNouns, { page, form, read, ask, write }: AdminGuards): Route[] {
  return [
    ['GET', '/admin', page, to.overview.page],
    ['GET', '/admin/api/overview', read, to.overview.overview],

    ['GET', '/admin/connected-apps', page, to.connectedApps.list],
    ['GET', '/admin/register-app', page, to.connectedApps.newForm],
    ['POST', '/admin/register-app', form, to.connectedApps.register],
    ['GET', '/admin/connected-apps/:id', page, to.connectedApps.one],
    ['POST', '/admin/connected-apps/:id', form, to.connectedApps.change],
    ['GET', '/admin/api/connected-apps', read, to.connectedAppApi.list],
    ['POST', '/admin/api/connected-apps', write, to.connectedAppApi.create],
    ['GET', '/admin/api/connected-apps/:id', read, to.connectedAppApi.one],
    ['PUT', '/admin/api/connected-apps/:id', write, to.connectedAppApi.replace],
    ['DELETE', '/admin/api/connected-apps/:id', write, to.connectedAppApi.remove],
    ['POST', '/admin/connected-apps/:id/check', form, to.connectedAppCheck.checkByForm],
    ['POST', '/admin/api/connected-apps/:id/check', write, to.connectedAppCheck.check],
    ['POST', '/admin/api/register-at-provider', write, to.providerRegistration.create],
    ['POST', '/admin/api/callback-urls', ask, to.connectedAppApi.judgeCallbackUrls],

    ['GET', '/admin/relay-tokens', page, to.relayTokens.page],
    ['GET', '/admin/relay-tokens/:id', page, to.relayTokens.onePage],
    ['POST', '/admin/relay-tokens', form, to.relayTokens.make],
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
    ['POST', '/admin/service-accounts', form, to.serviceAccounts.make],
    ['POST', '/admin/service-accounts/:id/replace', form, to.serviceAccounts.replaceByForm],
    ['POST', '/admin/service-accounts/:id/remove', form, to.serviceAccounts.removeByForm],
    ['GET', '/admin/api/service-accounts', read, to.serviceAccounts.list],
    ['POST', '/admin/api/service-accounts', write, to.serviceAccounts.create],
    ['GET', '/admin/api/service-accounts/:id', read, to.serviceAccounts.one],
    ['PUT', '/admin/api/service-accounts/:id', write, to.serviceAccounts.replace],
    ['DELETE', '/admin/api/service-accounts/:id', write, to.serviceAccounts.remove],

    ['GET', '/admin/webhooks', page, to.webhooks.page],
    ['GET', '/admin/webhooks/:id', page, to.webhooks.onePage],
    ['POST', '/admin/webhooks', form, to.webhooks.make],
    ['POST', '/admin/webhooks/:id', form, to.webhooks.changeByForm],
    ['POST', '/admin/webhooks/:id/remove', form, to.webhooks.removeByForm],
    ['GET', '/admin/api/webhooks', read, to.webhookApi.list],
    ['POST', '/admin/api/webhooks', write, to.webhookApi.create],
    ['GET', '/admin/api/webhooks/:id', read, to.webhookApi.one],
    ['GET', '/admin/api/webhooks/:id/messages', read, to.webhookApi.messages],
    ['PUT', '/admin/api/webhooks/:id', write, to.webhookApi.replace],
    ['DELETE', '/admin/api/webhooks/:id', write, to.webhookApi.remove],

    ['GET', '/admin/keys', page, to.keys.page],
    ['POST', '/admin/keys/rotate', form, to.keys.rotateByForm],
    ['GET', '/admin/api/keys', read, to.keys.overview],
    ['POST', '/admin/api/keys/rotate', write, to.keys.rotate],

    ['GET', '/admin/admin-tokens', page, to.adminTokens.page],
    ['POST', '/admin/admin-tokens', form, to.adminTokens.make],
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
    ['GET', '/admin/api/connections/:id', read, to.connections.one],
    ['DELETE', '/admin/api/connections/:id', write, to.disconnections.end],
    ['POST', '/admin/api/connected-apps/:id/disconnect-everyone', write, to.disconnections.endAll],
    ['GET', '/admin/api/connected-apps/:id/disconnect-everyone', read, to.disconnections.progress],
    ['GET', '/admin/api/revocations', read, to.connections.revocations],

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
