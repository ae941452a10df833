/** The check of a name before a proxy opens a tunnel to it never waits for a resolver that does not respond. */
import type { lookup as systemLookup } from 'node:dns';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { checkHostname } from '../../../src/shared/outbound/checked-lookup.ts';
import { createHostNames } from '../../../src/shared/outbound/host-names.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const policy = createAddressPolicy(['only-the-proxy.example.com']);
const silent = (() => undefined) as unknown as typeof systemLookup;
const failing = ((_name: string, _options: object, done: (error: Error) => void) =>
  done(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }))) as unknown as typeof systemLookup;

test.each([
  ['that does not respond', silent, 'NAME_TIMEOUT'],
  ['that does not know the name', failing, 'ENOTFOUND'],
])(
  'R79 with a resolver %s, a name is refused unless INTERNAL_HOSTS contains it',
  async (_description, lookup, code) => {
    const names = createHostNames({ lookup });
    const check = (hostname: string) => checkHostname(policy, names, hostname);
    const checks = Promise.all([check('idp.example.com'), check('only-the-proxy.example.com')]);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(await checks).toEqual([expect.objectContaining({ code }), undefined]);
  },
);
