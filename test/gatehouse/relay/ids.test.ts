/** Ids in paths and logs must not look like card numbers. */
import { expect, test } from 'vitest';
import { newServiceAccountId } from '../../../src/gatehouse/relay/service-account.ts';
import { newWebhookId } from '../../../src/gatehouse/webhooks/webhook-store.ts';
import { containsCardNumber } from '../../../src/shared/observability/card-numbers.ts';

test.each([
  ['webhook', newWebhookId],
  ['service account', newServiceAccountId],
])('R85 no id of a %s looks like a card number', (_kind, newId) => {
  const ids = Array.from({ length: 50_000 }, newId);
  expect(ids.filter(containsCardNumber)).toEqual([]);
});
