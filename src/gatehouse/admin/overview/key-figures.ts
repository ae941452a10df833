/** The key figures of the overview, each with the previous value and a link to its list. Pure. */
import type { Tallied } from '../../audit/tallies.ts';
import type { Counts } from './figures.ts';

export interface KeyFigure {
  label: string;
  value: number;
  before: number;
  /** The share of a total, in percent; undefined if the figure is not part of a total. */
  share: number | undefined;
  /** The path of the list, below `/admin`. */
  path: string;
}

const FIGURES: readonly {
  label: string;
  names: readonly Tallied[];
  /** The counts whose sum is the total. */
  totalNames?: readonly Tallied[];
  path: (from: string) => string;
}[] = [
  { label: 'Sign-ins', names: ['sign_in.succeeded'], path: (from) => `/audit?event=sign_in.succeeded&from=${from}` },
  {
    label: 'Refused or failed sign-ins',
    names: ['sign_in.refused', 'sign_in.failed'],
    totalNames: ['sign_in.succeeded', 'sign_in.refused', 'sign_in.failed'],
    path: () => '/sign-ins?failed=true',
  },
  { label: 'Refreshes', names: ['refresh.succeeded'], path: () => '/connections' },
  {
    label: 'Failed refreshes',
    names: ['refresh.failed'],
    totalNames: ['refresh.succeeded', 'refresh.failed'],
    path: (from) => `/audit?event=refresh.failed&from=${from}`,
  },
  { label: 'Relay calls', names: ['relay.answered'], path: (from) => `/audit?event=relay.used&from=${from}` },
  {
    label: 'Refused relay calls',
    names: ['relay.refused'],
    totalNames: ['relay.answered', 'relay.refused', 'relay.failed'],
    path: (from) => `/audit?event=relay.refused&from=${from}`,
  },
];

export function keyFigures({ from, total, before }: { from: string; total: Counts; before: Counts }): KeyFigure[] {
  return FIGURES.map(({ label, names, totalNames, path }) => {
    const value = sumOf(total, names);
    const whole = totalNames ? sumOf(total, totalNames) : 0;
    const share = whole === 0 ? undefined : (100 * value) / whole;
    return { label, value, before: sumOf(before, names), share, path: path(encodeURIComponent(from)) };
  });
}

const sumOf = (counts: Counts, names: readonly Tallied[]) => names.reduce((sum, name) => sum + (counts[name] ?? 0), 0);
