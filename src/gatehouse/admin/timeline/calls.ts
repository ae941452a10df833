/** Sums the calls of services by hour, service and app, separately for refused calls. Pure. */
import { RELAY_WORDS } from '../../relay/policy.ts';
import type { UseCount } from '../../relay/stored-uses.ts';
import type { HourOfUse } from '../../relay/uses.ts';

/** The calls of one hour. `token` and `app` are undefined if the page is about them, or if they are not known. */
export interface Calls {
  /** The start of the hour, in milliseconds since the epoch. */
  at: number;
  refused: boolean;
  token?: string | undefined;
  app?: string | undefined;
  count: number;
  /** Texts with the number of calls by scope and result. */
  parts: string[];
  /** The rules that refused the calls. */
  rules: string[];
}

/** Sums the calls. @param dimension `token` divides the counts by relay token, `app` by app */
export function callsOfHours(hours: readonly HourOfUse[], dimension: 'token' | 'app'): Calls[] {
  return hours.flatMap(({ at, counts }) =>
    [...Map.groupBy(counts, (count) => `${isRefusal(count)} ${count.other ?? ''}`).values()].map((group) => ({
      at,
      refused: group.some(isRefusal),
      [dimension]: group[0]?.other,
      count: group.reduce((sum, { count }) => sum + count, 0),
      parts: group.map(partOf),
      rules: [...new Set(group.filter(isRefusal).map(({ result }) => result))],
    })),
  );
}

export function callsSentence(
  { refused, count, rules }: Calls,
  { service, app }: { service: string | undefined; app: string | undefined },
): string {
  const to = app === undefined ? '' : ` to ${app}`;
  const calls = `${count.toLocaleString('en-GB')} ${count === 1 ? 'call' : 'calls'}`;
  const by = `${rules.length === 1 ? 'rule' : 'rules'} ${rules.join(', ')}`;
  if (refused) return `Refused ${calls}${service ? ` by ${service}` : ''}${to}: ${by}`;
  return service ? `${service} made ${calls}${to}` : `Made ${calls}${to}`;
}

const isRefusal = ({ result }: UseCount) => result !== 'succeeded' && result !== 'failed';

function partOf({ scope, result, count }: UseCount): string {
  const outcome = result === 'succeeded' || result === 'failed' ? result : `refused by rule ${result}`;
  return `${RELAY_WORDS.scopes[scope] ?? scope}: ${count.toLocaleString('en-GB')} ${outcome}`;
}
