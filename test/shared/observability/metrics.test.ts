/** The metrics of a new process. */
import { expect, test } from 'vitest';
import { FAILURE_WORDS } from '../../../src/gatehouse/grants/refresh-failure.ts';
import { PROBLEMS } from '../../../src/shared/errors.ts';
import { createMetrics, LABEL_VALUES } from '../../../src/shared/observability/metrics.ts';

test('every series whose increase an alert watches starts at 0', async () => {
  const text = await createMetrics().registry.metrics();
  const valuesOf = (name: string, label: string) =>
    [...text.matchAll(new RegExp(`^gatehouse_${name}_total\\{${label}="(\\w+)"\\} 0$`, 'gm'))].map(
      ([, value]) => value,
    );
  /** Counters with the label `app`, by default for the app `other`. */
  const outcomesOf = (name: string, labels = 'app="other"') =>
    [...text.matchAll(new RegExp(`^gatehouse_${name}_total\\{${labels},outcome="(\\w+)"\\} 0$`, 'gm'))].map(
      ([, value]) => value,
    );
  expect(valuesOf('problems', 'code')).toEqual(Object.keys(PROBLEMS));
  expect(outcomesOf('sign_ins')).toEqual(LABEL_VALUES.signIns);
  expect(outcomesOf('refreshes')).toEqual(LABEL_VALUES.refreshes);

  for (const app of ['other', 'none'])
    expect(outcomesOf('relay_calls', `app="${app}"`)).toEqual(LABEL_VALUES.relayCalls);
  for (const labels of ['app="other",peer="provider"', 'app="other",peer="platform"', 'app="none",peer="webhook"'])
    expect(outcomesOf('outbound_requests', labels)).toEqual(LABEL_VALUES.outboundRequests);
  expect(valuesOf('reconnects_needed', 'cause')).toEqual(LABEL_VALUES.reconnectsNeeded);
  expect(valuesOf('bin_lookups', 'result')).toEqual(LABEL_VALUES.binLookups);
  expect(valuesOf('bin_service_failures', 'reason')).toEqual(LABEL_VALUES.binServiceFailures);
  expect(valuesOf('spans', 'outcome')).toEqual(LABEL_VALUES.spans);
  expect(valuesOf('counts_lost', 'kind')).toEqual(LABEL_VALUES.countsLost);

  for (const name of ['audit_entries_lost', 'webhook_messages_lost', 'connections_not_listed', 'outbound_refused'])
    expect(text).toMatch(new RegExp(`^gatehouse_${name}_total 0$`, 'm'));
});

test('the causes are those of connections', () => {
  for (const cause of LABEL_VALUES.reconnectsNeeded) expect(FAILURE_WORDS).toHaveProperty(cause);
});
