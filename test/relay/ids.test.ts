/** Ids that stand in paths and logs. */
import { expect, test } from 'vitest';
import { containsCardNumber } from '../../src/observability/card-numbers.ts';
import { newServiceAccountId } from '../../src/relay/service-account.ts';
import { newWebhookId } from '../../src/webhooks/webhook-store.ts';

test.each([
  ['webhook', newWebhookId],
  ['service account', newServiceAccountId],
])('R85 no id of a %s is taken for a card number', (_kind, newId) => {
  const ids = Array.from({ length: 50_000 }, newId);
  expect(ids.filter(containsCardNumber)).toEqual([]);
});
