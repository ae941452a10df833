/** The hostile provider as one of many tenants: its metadata has a template, its tokens the issuer of a tenant. */
import type { Mode } from '../../support/hostile-modes.ts';
import type { HostileProvider } from '../../support/hostile-provider.ts';

export const INK = '8eaef023-2b34-4da1-9baa-8bc8c9d6a490';
export const BOOK = '82229342-1101-4ab6-817b-70c0747630f3';
/** Named by no app. */
export const STRANGE = '9188040d-6c67-4c5b-b112-36a304b66dad';

export const tenantIssuer = ({ issuer }: { issuer: string }, tenant: string) => `${issuer}/${tenant}/v2.0`;

/** Changes of an app: the template as issuer, and both tenants named. */
export function templateApp(provider: HostileProvider): Record<string, unknown> {
  return {
    issuer: tenantIssuer(provider, '{tenantid}'),
    discoveryUrl: `${provider.issuer}/.well-known/openid-configuration`,
    signIn: { allow: { claim: 'tid', values: [INK, BOOK] } },
  };
}

/** From now on users sign in at this tenant. @param members of the metadata; undefined leaves one out */
export function tenants(tenant: string, members: Record<string, unknown> = {}): Mode {
  return {
    metadata: (metadata, scene) => ({ ...metadata, issuer: tenantIssuer(scene, '{tenantid}'), ...members }),
    callback: (parameters, scene) => parameters.set('iss', tenantIssuer(scene, tenant)),
    claims: (claims, scene) => ({ ...claims, iss: tenantIssuer(scene, tenant), tid: tenant }),
  };
}
