/** Counts events for the overview. */
import type { EventListener } from '../../shared/observability/events.ts';
import type { Tallies } from './tallies.ts';

export function talliedEvents({ count }: Pick<Tallies, 'count'>): EventListener {
  return {
    signInEnded(facts) {
      const { outcome, unsolicited } = facts;
      if (unsolicited) return;
      count(outcome === 'refused' || outcome === 'failed' ? `sign_in.${outcome}` : 'sign_in.succeeded');
    },
    refreshEnded(facts) {
      count(facts.outcome === 'refreshed' ? 'refresh.done' : 'refresh.failed');
    },
  };
}
