/** Checks host names by the addresses that they resolve to at the time of the call. */
import type { LookupAddress, lookup as systemLookup } from 'node:dns';
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
 * Returns the error where a host must not be called: one of its addresses breaks a rule, or its name cannot be resolved
 * here and is not in `INTERNAL_HOSTS`.
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
    const timer = setTimeout(() => {
      // The code of getaddrinfo where the resolver does not respond.
      unresolved(Object.assign(new Error('The name was not resolved in time.'), { code: 'EAI_AGAIN' }));
    }, LOOKUP_TIMEOUT_MS);
    lookup(hostname, { all: true }, (error, addresses) => {
      clearTimeout(timer);
      if (error) unresolved(error);
      else resolve(refusalOf(policy, hostname, addresses));
    });
  });
}

/** Resolves and checks in one step, so that the address cannot change before the connection is made (DNS rebinding). */
export function judgedLookup(policy: AddressPolicy, lookup: typeof systemLookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const refusal = error ?? refusalOf(policy, hostname, addresses);
      if (refusal) return callback(refusal, '', 0);
      if (options.all) return callback(null, addresses);
      const [first] = addresses;
      return callback(null, first?.address ?? '', first?.family ?? 0);
    });
  };
}

function refusalOf(policy: AddressPolicy, hostname: string, addresses: readonly LookupAddress[]) {
  for (const { address } of addresses) {
    const rule = policy.checkAddress(hostname, address);
    if (rule) return new RefusedAddress(rule);
  }
  return undefined;
}
