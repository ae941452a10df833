/** Owns which events of the house are counted for the overview. */
import type { Events } from '../observability/events.ts';
import type { Tallies } from './tallies.ts';

export function talliedEvents(events: Events, { count }: Pick<Tallies, 'count'>): Events {
  return {
    ...events,
    signInEnded(facts) {
      events.signInEnded(facts);
      const { outcome, unsolicited } = facts;
      if (unsolicited) return;
      count(outcome === 'refused' || outcome === 'failed' ? `sign_in.${outcome}` : 'sign_in.succeeded');
    },
    refreshEnded(facts) {
      events.refreshEnded(facts);
      count(facts.outcome === 'refreshed' || facts.outcome === 'narrowed' ? 'refresh.done' : 'refresh.failed');
    },
  };
}
