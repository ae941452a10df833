/** The calls of services as items of a timeline: one for each hour, service and app, and another for those refused. Pure. */
import { RELAY_WORDS } from '../../relay/policy.ts';
import type { UseCount } from '../../relay/stored-uses.ts';
import type { HourOfUse } from '../../relay/uses.ts';

/** The calls of one hour. `token`, `app`: undefined if they are those of the page, or are not known. */
export interface Calls {
  /** The start of the hour, in milliseconds since the epoch. */
  at: number;
  refused: boolean;
  token?: string | undefined;
  app?: string | undefined;
  count: number;
  /** In words: how many of them ended in which way. */
  parts: string[];
  /** The rules that refused them. */
  rules: string[];
}

/** @param other which of the two the counts are divided by */
export function callsOfHours(hours: readonly HourOfUse[], other: 'token' | 'app'): Calls[] {
  return hours.flatMap(({ at, counts }) =>
    [...Map.groupBy(counts, (one) => `${isRefusal(one)} ${one.other ?? ''}`).values()].map((group) => ({
      at,
      refused: group.some(isRefusal),
      [other]: group[0]?.other,
      count: group.reduce((sum, { count }) => sum + count, 0),
      parts: group.map(partOf),
      rules: [...new Set(group.filter(isRefusal).map(({ result }) => result))],
    })),
  );
}

/** @param names those of the service and the app, where the sentence needs them */
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

const isRefusal = ({ result }: UseCount) => result !== 'answered' && result !== 'failed';

function partOf({ scope, result, count }: UseCount): string {
  const ended = result === 'answered' || result === 'failed' ? result : `refused by rule ${result}`;
  return `${RELAY_WORDS.scopes[scope] ?? scope}: ${count.toLocaleString('en-GB')} ${ended}`;
}
