/** The judgement of a name before a proxy is asked for it, which never waits for a resolver that does not respond. */
import type { lookup as systemLookup } from 'node:dns';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createHostNames } from '../../../src/shared/outbound/host-names.ts';
import { examineName } from '../../../src/shared/outbound/judged-lookup.ts';

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
  'R79 a resolver %s leaves a name unjudged, which counts as refused unless INTERNAL_HOSTS names it',
  async (_which, lookup, code) => {
    const names = createHostNames({ lookup });
    const judge = (hostname: string) => examineName(policy, names, hostname);
    const judged = Promise.all([judge('idp.example.com'), judge('only-the-proxy.example.com')]);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(await judged).toEqual([expect.objectContaining({ code }), undefined]);
  },
);
