/** The hostile provider with many tenants: an issuer template in its metadata, and a tenant's issuer in tokens. */
import type { Mode } from '../../support/hostile-modes.ts';
import type { HostileProvider } from '../../support/hostile-provider.ts';

export const INK = '8eaef023-2b34-4da1-9baa-8bc8c9d6a490';
export const BOOK = '82229342-1101-4ab6-817b-70c0747630f3';
/** A tenant that no app names. */
export const STRANGE = '9188040d-6c67-4c5b-b112-36a304b66dad';

export const tenantIssuer = ({ issuer }: { issuer: string }, tenant: string) => `${issuer}/${tenant}/v2.0`;

/** Settings of an app: the template as issuer, and two named tenants. */
export function templateApp(provider: HostileProvider): Record<string, unknown> {
  return {
    issuer: tenantIssuer(provider, '{tenantid}'),
    discoveryUrl: `${provider.issuer}/.well-known/openid-configuration`,
    signIn: { allow: { claim: 'tid', values: [INK, BOOK] } },
  };
}

/** Makes users sign in at this tenant. @param members of the metadata; undefined removes one */
export function tenants(tenant: string, members: Record<string, unknown> = {}): Mode {
  return {
    metadata: (metadata, scene) => ({ ...metadata, issuer: tenantIssuer(scene, '{tenantid}'), ...members }),
    callback: (parameters, scene) => parameters.set('iss', tenantIssuer(scene, tenant)),
    claims: (claims, scene) => ({ ...claims, iss: tenantIssuer(scene, tenant), tid: tenant }),
  };
}
