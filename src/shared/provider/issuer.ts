/** The issuers of an app: its own, or those of the tenants that it names, made from a template. Pure. */
import type { ConnectedApp } from './connected-app.ts';

/** Stands for a tenant in the issuer that some providers announce for all of their tenants. */
const TENANT = '{tenantid}';
export const TENANT_ID = /^[A-Za-z0-9-]{1,64}$/;

type TenantRule = { readonly signIn?: ConnectedApp['signIn'] | undefined };

export function isIssuerTemplate(issuer: string): boolean {
  return issuer.includes(TENANT);
}

export function issuerOfTenant(template: string, tenant: string): string {
  return template.replace(TENANT, () => tenant);
}

/** The tenants that an app names in its rule for who may sign in. */
export function namedTenants({ signIn }: TenantRule): readonly string[] {
  const allow = signIn?.allow;
  return typeof allow === 'object' && allow.claim === 'tid' ? allow.values : [];
}

/**
 * The only issuers whose tokens are accepted. Those of a template are made from the registration and never from a token:
 * such a provider signs for all of its tenants with the same keys, anyone can open a tenant there, and its owner decides
 * what its users are called. So a token of a tenant that is not named has a valid signature and proves nothing.
 */
export function acceptedIssuers({ issuer, signIn }: Pick<ConnectedApp, 'issuer'> & TenantRule): string[] {
  if (!isIssuerTemplate(issuer)) return [issuer];
  return namedTenants({ signIn }).map((tenant) => issuerOfTenant(issuer, tenant));
}

/** For a call that is made before the tenant is known. @param named by the provider, which proves nothing */
export function firstIssuer(app: Pick<ConnectedApp, 'issuer'> & TenantRule, named?: string | null): string {
  const issuers = acceptedIssuers(app);
  return issuers.find((issuer) => issuer === named) ?? issuers[0] ?? app.issuer;
}

/** @param claims of a verified JWT: its issuer is part of who the user is, since two tenants may have the same `sub` */
export function issuerOf({ issuer }: Pick<ConnectedApp, 'issuer'>, { iss }: Readonly<Record<string, unknown>>): string {
  return isIssuerTemplate(issuer) ? String(iss) : issuer;
}

interface Account {
  readonly issuer?: string | undefined;
}

/** False for accounts of two tenants; without a template all accounts of an app are of one issuer. */
export function isSameIssuer({ issuer }: Pick<ConnectedApp, 'issuer'>, one: Account, other: Account): boolean {
  return !isIssuerTemplate(issuer) || one.issuer === other.issuer;
}
