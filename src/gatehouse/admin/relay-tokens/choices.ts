/** What the form of a relay token offers: the connected apps, their routes, and the names of scopes and rules. */
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import { routesOf } from '../../connected-apps/route-match.ts';
import { RELAY_WORDS } from '../../relay/policy.ts';
import { ALL_READS } from './form.ts';

export interface Choices {
  apps: readonly { id: string; name: string }[];
  routeOptions: readonly (readonly [value: string, label: string])[];
  words: typeof RELAY_WORDS;
}

/** @param chosen names of routes that the form has, which an app may no longer declare */
export function choicesFor(apps: Pick<CurrentApps, 'named' | 'threadApps'>, chosen: readonly string[] = []): Choices {
  const calls = new Map(chosen.filter((name) => name !== ALL_READS).map((name) => [name, new Set<string>()]));
  for (const { name, method, path } of apps.threadApps().flatMap(routesOf)) {
    calls.set(name, (calls.get(name) ?? new Set()).add(`${method} ${path}`));
  }
  const named = [...calls].map(([name, ofApps]) => [name, [name, ...ofApps].join(' · ')] as const);
  return {
    apps: apps.named(),
    routeOptions: [[ALL_READS, 'Every route with GET'], ...named],
    words: RELAY_WORDS,
  };
}
