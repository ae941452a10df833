/** The key figures of a time range, and those of the present, each with links to lists. Pure. */
import { HEALTHS, healthText } from '../../../shared/pages/words.ts';
import { uncapitalised } from '../../../shared/text.ts';
import type { Tallied } from '../../audit/tallies.ts';
import type { Counts } from './figures.ts';

interface Count {
  words: string;
  value: number;
  /** The path of the list, below `/admin`. */
  path: string;
  /** True for what does not work. A refusal is not bad: Gatehouse does what it is there for. */
  isBad: boolean;
}

interface Figure {
  label: string;
  value: number;
  path: string;
  parts: readonly Count[];
}

/** `parts`: what did not succeed, if there is any. */
export interface KeyFigure extends Figure {
  previous: number;
}

type PathFrom = (from: string) => string;

const FIGURES: readonly {
  label: string;
  name: Tallied;
  path: PathFrom;
  parts: readonly { name: Tallied; words: string; path: PathFrom }[];
}[] = [
  {
    label: 'Sign-ins',
    name: 'sign_in.succeeded',
    path: (from) => `/audit?event=sign_in.succeeded&from=${from}`,
    parts: [
      { name: 'sign_in.refused', words: 'refused', path: (from) => `/audit?event=sign_in.refused&from=${from}` },
      { name: 'sign_in.failed', words: 'failed', path: (from) => `/audit?event=sign_in.failed&from=${from}` },
    ],
  },
  {
    label: 'Refreshes',
    name: 'refresh.succeeded',
    path: () => '/connections',
    parts: [{ name: 'refresh.failed', words: 'failed', path: (from) => `/audit?event=refresh.failed&from=${from}` }],
  },
  {
    label: 'Relay calls',
    name: 'relay.succeeded',
    path: (from) => `/audit?event=relay.used&from=${from}`,
    parts: [
      { name: 'relay.refused', words: 'refused', path: (from) => `/audit?event=relay.refused&from=${from}` },
      { name: 'relay.failed', words: 'failed', path: (from) => `/audit?event=relay.used&from=${from}` },
    ],
  },
];

export function keyFigures({
  from,
  total,
  previousTotal,
}: {
  from: string;
  total: Counts;
  previousTotal: Counts;
}): KeyFigure[] {
  const start = encodeURIComponent(from);
  return FIGURES.map(({ label, name, path, parts }) => {
    const counts = parts
      .map((part) => ({
        words: part.words,
        value: total[part.name] ?? 0,
        path: part.path(start),
        isBad: part.words === 'failed',
      }))
      .filter(({ value }) => value > 0);
    return { label, value: total[name] ?? 0, previous: previousTotal[name] ?? 0, path: path(start), parts: counts };
  });
}

export interface PresentFigure extends Figure {
  /** The largest possible value, if there is one. */
  limit?: number;
}

/** Of connections, the parts are the healths that occur. */
export function presentFigures(overview: {
  users: number;
  sessions: number;
  connections: Readonly<Record<'total' | (typeof HEALTHS)[number], number>>;
  binQuota: { used: number; limit: number } | null;
}): PresentFigure[] {
  const { users, sessions, connections, binQuota } = overview;
  const healths = HEALTHS.filter((health) => connections[health] > 0).map((health) => {
    const isFiltered = health === 'unverified' || health === 'reconnect_needed';
    const path = isFiltered ? `/connections?health=${health}` : '/connections';
    return { words: uncapitalised(healthText(health).label), value: connections[health], path, isBad: isFiltered };
  });
  const sessionCount = {
    words: sessions === 1 ? 'session' : 'sessions',
    value: sessions,
    path: '/sessions',
    isBad: false,
  };
  return [
    { label: 'Users', value: users, path: '/users', parts: [sessionCount] },
    { label: 'Connections', value: connections.total, path: '/connections', parts: healths },
    ...(binQuota ? [{ label: 'BIN calls', value: binQuota.used, path: '/bin', parts: [], limit: binQuota.limit }] : []),
  ];
}
