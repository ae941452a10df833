/** The key figures of the overview, each with the previous value and a link to its list. Pure. */
import type { Tallied } from '../../audit/tallies.ts';
import type { Counts } from './figures.ts';

export interface KeyFigure {
  label: string;
  value: number;
  before: number;
  /** In percent of the total that it is a part of; undefined without one. */
  share: number | undefined;
  /** Below `/admin`. */
  path: string;
}

const FIGURES: readonly {
  label: string;
  names: readonly Tallied[];
  /** The counts whose sum it is a part of. */
  of?: readonly Tallied[];
  path: (from: string) => string;
}[] = [
  { label: 'Sign-ins', names: ['sign_in.succeeded'], path: (from) => `/audit?event=sign_in.succeeded&from=${from}` },
  {
    label: 'Refused or failed sign-ins',
    names: ['sign_in.refused', 'sign_in.failed'],
    of: ['sign_in.succeeded', 'sign_in.refused', 'sign_in.failed'],
    path: () => '/sign-ins?failed=true',
  },
  { label: 'Refreshes', names: ['refresh.succeeded'], path: () => '/connections' },
  {
    label: 'Failed refreshes',
    names: ['refresh.failed'],
    of: ['refresh.succeeded', 'refresh.failed'],
    path: (from) => `/audit?event=refresh.failed&from=${from}`,
  },
  { label: 'Relay calls', names: ['relay.answered'], path: (from) => `/audit?event=relay.used&from=${from}` },
  {
    label: 'Refused relay calls',
    names: ['relay.refused'],
    of: ['relay.answered', 'relay.refused', 'relay.failed'],
    path: (from) => `/audit?event=relay.refused&from=${from}`,
  },
];

export function keyFigures({ from, total, before }: { from: string; total: Counts; before: Counts }): KeyFigure[] {
  return FIGURES.map(({ label, names, of, path }) => {
    const value = sumOf(total, names);
    const whole = of ? sumOf(total, of) : 0;
    const share = whole === 0 ? undefined : (100 * value) / whole;
    return { label, value, before: sumOf(before, names), share, path: path(encodeURIComponent(from)) };
  });
}

const sumOf = (counts: Counts, names: readonly Tallied[]) => names.reduce((sum, name) => sum + (counts[name] ?? 0), 0);
