/** Checks host names by the addresses that they resolve to at the time of the call. */
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
 * Returns the error where a host must not be called: one of its addresses breaks a rule, or its name cannot be resolved
 * here and is not in `INTERNAL_HOSTS`.
 */
export async function examineName(
  policy: AddressPolicy,
  names: HostNames,
  hostname: string,
): Promise<Error | undefined> {
  // `checkUrl` has checked an address as it is written.
  if (isIP(hostname.replace(/^\[|\]$/g, ''))) return undefined;
  try {
    return refusalOf(policy, hostname, await names.resolve(hostname));
  } catch (error) {
    return policy.isNamed(hostname) ? undefined : (error as Error);
  }
}

/**
 * Judges the addresses at each use, also those that several calls share, and connects to no others, so that an address
 * cannot change between check and connection (DNS rebinding).
 */
export function judgedLookup(policy: AddressPolicy, names: HostNames): LookupFunction {
  return lookupOf(names, (hostname, addresses) => refusalOf(policy, hostname, addresses));
}

/** For the operator's own proxy, whose address no rule restricts. */
export function unjudgedLookup(names: HostNames): LookupFunction {
  return lookupOf(names, () => undefined);
}

function lookupOf(
  names: HostNames,
  judge: (hostname: string, addresses: readonly LookupAddress[]) => Error | undefined,
): LookupFunction {
  return (hostname, options, callback) => {
    const done = (error: Error | undefined, addresses: readonly LookupAddress[] = []) => {
      const refusal = error ?? judge(hostname, addresses);
      if (refusal) return callback(refusal, '', 0);
      if (options.all) return callback(null, [...addresses]);
      const [first] = addresses;
      return callback(null, first?.address ?? '', first?.family ?? 0);
    };
    names.resolve(hostname, options).then(
      (addresses) => done(undefined, addresses),
      (error: Error) => done(error),
    );
  };
}

function refusalOf(policy: AddressPolicy, hostname: string, addresses: readonly LookupAddress[]) {
  for (const { address } of addresses) {
    const rule = policy.checkAddress(hostname, address);
    if (rule) return new RefusedAddress(rule);
  }
  return undefined;
}
