/** Metrics with the label `app`: series for each connected app, from its registration to its removal. */
import { Counter, Histogram, type Registry } from './prom-client.ts';

/** The connected apps as they are now. */
export interface KnownApps {
  list(): readonly { id: string }[];
  find(id: string): unknown;
}

/** In place of an id that no app has: callers can send any, and an app may have been removed meanwhile. */
const OTHER_APP = 'other';
/** For what concerns no app, such as BIN look-ups. */
const NO_APP = 'none';

/** The names of the other labels, and their values: of each app, and of what concerns none. */
export interface OtherLabels {
  names: readonly string[];
  ofApps: readonly (readonly string[])[];
  withoutApp?: readonly (readonly string[])[];
}

export interface AppCounter {
  /** @param values of the other labels, with a comma between them */
  inc(app: string | undefined, values: string): void;
}

export interface AppHistogram {
  /** @param values as of `AppCounter` */
  observe(app: string | undefined, seconds: number, values?: string): void;
}

export interface AppSeries {
  /** Sets where the connected apps are found. Before that, every id counts as `other`. */
  watchApps(known: KnownApps): void;
  counter(name: string, help: string, others: OtherLabels): AppCounter;
  /** Of durations. */
  histogram(name: string, help: string, others?: OtherLabels): AppHistogram;
}

type Labels = Record<string, string>;

const NO_OTHERS: OtherLabels = { names: [], ofApps: [[]] };
const BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30];

export function createAppSeries(registers: Registry[]): AppSeries {
  let apps: KnownApps = { list: () => [], find: () => undefined };

  const labelOf = (app: string | undefined): string =>
    app === undefined ? NO_APP : apps.find(app) === undefined ? OTHER_APP : app;

  /** Keeps the series of each app. Those of a new app begin at once, because `increase()` misses a first count otherwise. */
  const family = <One>(
    { names, ofApps, withoutApp = [] }: OtherLabels,
    make: (labels: Labels) => One,
    drop: (one: One) => void = () => undefined,
  ) => {
    const byApp = new Map<string, Map<string, One>>();
    const begin = (app: string, values: readonly string[]): One =>
      make({ app, ...Object.fromEntries(names.map((name, at) => [name, values[at] ?? ''])) });
    const beginAll = (app: string) => {
      const all = (app === NO_APP ? withoutApp : ofApps).map((values) => [values.join(), begin(app, values)] as const);
      byApp.set(app, new Map(all));
    };
    return {
      /** All series, without those of removed apps. */
      all(): One[] {
        const current = new Set([...apps.list().map(({ id }) => id), OTHER_APP, NO_APP]);
        for (const [app, series] of byApp) {
          if (current.has(app)) continue;
          for (const one of series.values()) drop(one);
          byApp.delete(app);
        }
        for (const app of current) if (!byApp.has(app)) beginAll(app);
        return [...byApp.values()].flatMap((series) => [...series.values()]);
      },
      /** @param values of the other labels, with a comma between them */
      of(app: string | undefined, values: string): One {
        const label = labelOf(app);
        const known = byApp.get(label)?.get(values);
        if (known) return known;
        if (!byApp.has(label)) beginAll(label);
        const ofApp = byApp.get(label);
        const one = ofApp?.get(values) ?? begin(label, values.split(','));
        ofApp?.set(values, one);
        return one;
      },
    };
  };

  return {
    watchApps(known) {
      apps = known;
    },

    counter(name, help, others) {
      const { all, of } = family(others, (labels) => ({ labels, count: 0 }));
      new Counter({
        name: `gatehouse_${name}_total`,
        help,
        labelNames: ['app', ...others.names],
        registers,
        collect() {
          this.reset();
          for (const { labels, count } of all()) this.inc(labels, count);
        },
      });
      return {
        inc(app, values) {
          of(app, values).count += 1;
        },
      };
    },

    histogram(name, help, others = NO_OTHERS) {
      const made: Histogram = new Histogram({
        name: `gatehouse_${name}_seconds`,
        help,
        buckets: BUCKETS,
        labelNames: ['app', ...others.names],
        registers,
        collect: () => void all(),
      });
      const begin = (labels: Labels): Labels => {
        made.zero(labels);
        return labels;
      };
      const { all, of } = family(others, begin, (labels) => made.remove(labels));
      return { observe: (app, seconds, values = '') => made.observe(of(app, values), seconds) };
    },
  };
}
