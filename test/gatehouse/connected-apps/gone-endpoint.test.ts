/** R131: an endpoint is gone if no connection to it could be made. Its metadata is then read again. */
import { expect, test } from 'vitest';
import { OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { isGone, ProviderError } from '../../../src/shared/provider/provider-error.ts';

test.each([
  ['connection', false, true],
  ['connection', true, false],
  ['timeout', false, false],
  ['timeout', true, false],
] as const)('R131 an endpoint that fails with %s (request sent: %s) is gone: %s', (reason, sent, expected) => {
  const error = new OutboundError(reason, 'it failed', undefined, { sent });
  expect(isGone(error)).toBe(expected);
  expect(isGone(ProviderError.from(error))).toBe(expected);
});
