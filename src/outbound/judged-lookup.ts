/** Owns the judging of host names by the addresses that they have at the moment of a call. */
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

const EXAMINE_MILLISECONDS = 3_000;

/** Answers the rule that an address of this name breaks, as far as can be told in time. */
export function examineName(
  policy: AddressPolicy,
  lookup: typeof systemLookup,
  hostname: string,
): Promise<AddressRule | undefined> {
  // An address needs no resolving, and was judged as it was written.
  if (isIP(hostname.replace(/^\[|\]$/g, ''))) return Promise.resolve(undefined);
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), EXAMINE_MILLISECONDS);
    lookup(hostname, { all: true }, (error, addresses) => {
      clearTimeout(timer);
      const rules = error ? [] : addresses.map(({ address }) => policy.checkAddress(hostname, address));
      resolve(rules.find((rule) => rule !== undefined));
    });
  });
}

/** Resolves and judges in one step, and connects to what was judged, so that a name cannot change its address in between. */
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
