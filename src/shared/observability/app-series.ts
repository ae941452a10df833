/** Metrics with the label `app`. Each connected app has series from its registration to its deletion. */
import { Counter, Histogram, type Registry } from './prom-client.ts';

/** The current connected apps. */
export interface RegisteredApps {
  list(): readonly { id: string }[];
  find(id: string): unknown;
}

/** The label for an id that no app has: callers can send any id, and an app may have been deleted meanwhile. */
const OTHER_APP = 'other';
/** The label for calls without an app, such as BIN lookups. */
const NO_APP = 'none';

/** The labels besides `app`: their names, and their values for each app and for calls without an app. */
export interface OtherLabels {
  names: readonly string[];
  ofApps: readonly (readonly string[])[];
  withoutApp?: readonly (readonly string[])[];
}

export interface AppCounter {
  /** @param values the values of the other labels, comma-separated */
  inc(app: string | undefined, values: string): void;
}

export interface AppHistogram {
  /** @param values as for `AppCounter` */
  observe(app: string | undefined, seconds: number, values?: string): void;
}

export interface AppSeries {
  /** Sets the source of the connected apps. Before that, every id counts as `other`. */
  watchApps(registered: RegisteredApps): void;
  counter(name: string, help: string, others: OtherLabels): AppCounter;
  /** Creates a histogram of durations in seconds. */
  histogram(name: string, help: string, others?: OtherLabels): AppHistogram;
}

type Labels = Record<string, string>;

const NO_OTHERS: OtherLabels = { names: [], ofApps: [[]] };
const BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30];

export function createAppSeries(registers: Registry[]): AppSeries {
  let apps: RegisteredApps = { list: () => [], find: () => undefined };

  const labelOf = (app: string | undefined): string =>
    app === undefined ? NO_APP : apps.find(app) === undefined ? OTHER_APP : app;

  /**
   * Manages the series of each app. A new app has its series at once, because `increase()` would miss the first count.
   */
  const family = <Series>(
    { names, ofApps, withoutApp = [] }: OtherLabels,
    create: (labels: Labels) => Series,
    remove: (series: Series) => void = () => undefined,
  ) => {
    const byApp = new Map<string, Map<string, Series>>();
    const begin = (app: string, values: readonly string[]): Series =>
      create({ app, ...Object.fromEntries(names.map((name, index) => [name, values[index] ?? ''])) });
    const beginAll = (app: string) => {
      const entries = (app === NO_APP ? withoutApp : ofApps).map(
        (values) => [values.join(), begin(app, values)] as const,
      );
      byApp.set(app, new Map(entries));
    };
    return {
      /** Returns all series, and removes those of deleted apps. */
      all(): Series[] {
        const current = new Set([...apps.list().map(({ id }) => id), OTHER_APP, NO_APP]);
        for (const [app, series] of byApp) {
          if (current.has(app)) continue;
          for (const entry of series.values()) remove(entry);
          byApp.delete(app);
        }
        for (const app of current) if (!byApp.has(app)) beginAll(app);
        return [...byApp.values()].flatMap((series) => [...series.values()]);
      },
      /** Returns the series of an app. @param values the values of the other labels, comma-separated */
      of(app: string | undefined, values: string): Series {
        const label = labelOf(app);
        const existing = byApp.get(label)?.get(values);
        if (existing) return existing;
        if (!byApp.has(label)) beginAll(label);
        const seriesOfApp = byApp.get(label);
        const series = seriesOfApp?.get(values) ?? begin(label, values.split(','));
        seriesOfApp?.set(values, series);
        return series;
      },
    };
  };

  return {
    watchApps(registered) {
      apps = registered;
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
      const histogram: Histogram = new Histogram({
        name: `gatehouse_${name}_seconds`,
        help,
        buckets: BUCKETS,
        labelNames: ['app', ...others.names],
        registers,
        collect: () => void all(),
      });
      const begin = (labels: Labels): Labels => {
        histogram.zero(labels);
        return labels;
      };
      const { all, of } = family(others, begin, (labels) => histogram.remove(labels));
      return { observe: (app, seconds, values = '') => histogram.observe(of(app, values), seconds) };
    },
  };
}
