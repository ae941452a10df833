/** The issuers that an app accepts: its configured one, or those of its tenants, made from a template. Pure. */
import type { ConnectedApp } from './connected-app.ts';

/** The placeholder for a tenant in the issuer that some providers announce for all of their tenants. */
const TENANT = '{tenantid}';
export const TENANT_ID = /^[A-Za-z0-9-]{1,64}$/;

type TenantRule = { readonly signIn?: ConnectedApp['signIn'] | undefined };

export function isIssuerTemplate(issuer: string): boolean {
  return issuer.includes(TENANT);
}

export function issuerOfTenant(template: string, tenant: string): string {
  return template.replace(TENANT, () => tenant);
}

/** The tenants that the app's sign-in rule allows. */
export function namedTenants({ signIn }: TenantRule): readonly string[] {
  const allow = signIn?.allow;
  return typeof allow === 'object' && allow.claim === 'tid' ? allow.values : [];
}

/**
 * The only issuers whose tokens are accepted. For a template they come from the registration, never from a token: such
 * a provider signs for all tenants with the same keys, and anyone can create a tenant and choose the names of its
 * users.
 * A token of a tenant that the app does not name has a valid signature, but proves nothing.
 */
export function acceptedIssuers({ issuer, signIn }: Pick<ConnectedApp, 'issuer'> & TenantRule): string[] {
  if (!isIssuerTemplate(issuer)) return [issuer];
  return namedTenants({ signIn }).map((tenant) => issuerOfTenant(issuer, tenant));
}

/** The issuer for a call before the tenant is known. @param claimedIssuer the `iss` parameter, which is not verified */
export function firstIssuer(app: Pick<ConnectedApp, 'issuer'> & TenantRule, claimedIssuer?: string | null): string {
  const issuers = acceptedIssuers(app);
  return issuers.find((issuer) => issuer === claimedIssuer) ?? issuers[0] ?? app.issuer;
}

/**
 * @param claims of a verified JWT; its issuer is part of the user's identity, since two tenants may use the same `sub`
 */
export function issuerOf({ issuer }: Pick<ConnectedApp, 'issuer'>, { iss }: Readonly<Record<string, unknown>>): string {
  return isIssuerTemplate(issuer) ? String(iss) : issuer;
}

interface Account {
  readonly issuer?: string | undefined;
}

/** False for accounts of different tenants; without a template all accounts of an app have the same issuer. */
export function isSameIssuer({ issuer }: Pick<ConnectedApp, 'issuer'>, left: Account, right: Account): boolean {
  return !isIssuerTemplate(issuer) || left.issuer === right.issuer;
}
