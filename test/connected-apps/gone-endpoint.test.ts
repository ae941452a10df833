/** R131: for which failures of an endpoint the metadata that named it is read again. */
import { expect, test } from 'vitest';
import { isGone, ProviderError } from '../../src/connected-apps/provider-error.ts';
import { OutboundError } from '../../src/outbound/outbound.ts';

test.each([
  ['connection', false, true],
  ['connection', true, false],
  ['timeout', false, false],
  ['timeout', true, false],
] as const)('R131 an endpoint that fails with %s (request sent: %s) is gone: %s', (reason, sent, expected) => {
  const failed = new OutboundError(reason, 'it failed', undefined, { sent });
  expect([isGone(failed), isGone(ProviderError.from(failed))]).toEqual([expected, expected]);
});
