/** Checks a host name by the addresses that it resolves to at the time of the call. */
import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import type { AddressPolicy, AddressRule } from './address-policy.ts';
import type { HostNames } from './host-names.ts';

export class RefusedAddress extends Error {
  readonly rule: AddressRule;
  constructor(rule: AddressRule) {
    super('The address that this host name resolves to is not allowed.');
    this.rule = rule;
  }
}

/**
 * Checks a host name now. Returns an error if the host must not be called: one of its addresses breaks a rule, or its
 * name cannot be resolved here and is not in `INTERNAL_HOSTS`.
 */
export async function checkHostname(
  policy: AddressPolicy,
  names: HostNames,
  hostname: string,
): Promise<Error | undefined> {
  // `checkUrl` has checked literal addresses.
  if (isIP(hostname.replace(/^\[|\]$/g, ''))) return undefined;
  try {
    return findRefusal(policy, hostname, await names.resolve(hostname));
  } catch (error) {
    return policy.isNamed(hostname) ? undefined : (error as Error);
  }
}

/**
 * Creates a lookup that checks addresses at each use, even if several calls share them. The connection goes to one of
 * the checked addresses, which prevents DNS rebinding.
 */
export function createCheckedLookup(policy: AddressPolicy, names: HostNames): LookupFunction {
  return createLookup(names, (hostname, addresses) => findRefusal(policy, hostname, addresses));
}

/** Creates a lookup for the operator's own proxy, whose address no rule restricts. */
export function createUncheckedLookup(names: HostNames): LookupFunction {
  return createLookup(names, () => undefined);
}

function createLookup(
  names: HostNames,
  check: (hostname: string, addresses: readonly LookupAddress[]) => Error | undefined,
): LookupFunction {
  return (hostname, options, callback) => {
    const respond = (error: Error | undefined, addresses: readonly LookupAddress[] = []) => {
      const refusal = error ?? check(hostname, addresses);
      if (refusal) return callback(refusal, '', 0);
      if (options.all) return callback(null, [...addresses]);
      const [first] = addresses;
      return callback(null, first?.address ?? '', first?.family ?? 0);
    };
    names.resolve(hostname, options).then(
      (addresses) => respond(undefined, addresses),
      (error: Error) => respond(error),
    );
  };
}

function findRefusal(policy: AddressPolicy, hostname: string, addresses: readonly LookupAddress[]) {
  for (const { address } of addresses) {
    const rule = policy.checkAddress(hostname, address);
    if (rule) return new RefusedAddress(rule);
  }
  return undefined;
}
