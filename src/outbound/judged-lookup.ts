/** Checks host names by the addresses that they resolve to at the time of the call. */
import type { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import type { AddressPolicy, AddressRule } from './address-policy.ts';

export class RefusedAddress extends Error {
  readonly rule: AddressRule;
  constructor(rule: AddressRule) {
    super('The address that this host name resolves to is not allowed.');
    this.rule = rule;
  }
}

const LOOKUP_TIMEOUT_MS = 3_000;

/**
 * Returns the error where a host must not be called: one of its addresses breaks a rule, or its name cannot be resolved here.
 * A name that cannot be resolved may be called only if `INTERNAL_HOSTS` names it.
 */
export function examineName(
  policy: AddressPolicy,
  lookup: typeof systemLookup,
  hostname: string,
): Promise<Error | undefined> {
  // `checkUrl` has checked an address as it is written.
  if (isIP(hostname.replace(/^\[|\]$/g, ''))) return Promise.resolve(undefined);
  return new Promise((resolve) => {
    const unresolved = (error: Error) => resolve(policy.isNamed(hostname) ? undefined : error);
    const timer = setTimeout(() => unresolved(lookupTimeout()), LOOKUP_TIMEOUT_MS);
    lookup(hostname, { all: true }, (error, addresses) => {
      clearTimeout(timer);
      if (error) return unresolved(error);
      const rules = addresses.map(({ address }) => policy.checkAddress(hostname, address));
      const rule = rules.find((one) => one !== undefined);
      resolve(rule && new RefusedAddress(rule));
    });
  });
}

/** Has the code that getaddrinfo gives where the resolver does not respond. */
function lookupTimeout(): Error {
  return Object.assign(new Error('The name was not resolved in time.'), { code: 'EAI_AGAIN' });
}

/** Resolves and checks in one step, so that the name cannot change its address before the connection is made (DNS rebinding). */
export function judgedLookup(policy: AddressPolicy, lookup: typeof systemLookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, '', 0);
      for (const { address } of addresses) {
        const rule = policy.checkAddress(hostname, address);
        if (rule) return callback(new RefusedAddress(rule), '', 0);
      }
      const [first] = addresses;
      if (options.all) return callback(null, addresses as never);
      return callback(null, first?.address ?? '', first?.family ?? 0);
    });
  };
}
