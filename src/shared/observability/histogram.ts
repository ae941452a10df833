/**
 * Histograms of durations for prom-client's registry. Its own looks its labels up at each observation, which takes longer
 * than the rest of what a relayed request is measured by.
 */
import type { Histogram, Registry } from 'prom-client';

type Labels = Readonly<Record<string, string>>;

/** One series, to be kept by the caller. */
export interface Series {
  observe(seconds: number): void;
}

interface Counted extends Series {
  labels: Labels;
  /** Observations by bucket, not cumulative; the last is that of all longer ones. */
  counts: number[];
  sum: number;
}

/** @param buckets upper bounds in seconds, ascending */
export function createSeries(labels: Labels, buckets: readonly number[]): Counted {
  const series: Counted = {
    labels,
    counts: Array.from({ length: buckets.length + 1 }, () => 0),
    sum: 0,
    observe(seconds) {
      let at = 0;
      while (at < buckets.length && seconds > (buckets[at] ?? 0)) at += 1;
      series.counts[at] = (series.counts[at] ?? 0) + 1;
      series.sum += seconds;
    },
  };
  return series;
}

/** @param parts `all`: returns the series as they are now, at each scrape */
export function registerHistogram(parts: {
  name: string;
  help: string;
  buckets: readonly number[];
  registers: readonly Registry[];
  all: () => Iterable<Counted>;
}): void {
  const { name, help, buckets, registers, all } = parts;
  const samplesOf = ({ labels, counts, sum }: Counted) => {
    let count = 0;
    const upTo = counts.map((inBucket, at) => {
      count += inBucket;
      return { metricName: `${name}_bucket`, labels: { le: buckets[at] ?? '+Inf', ...labels }, value: count };
    });
    return [
      ...upTo,
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value: count },
    ];
  };
  const type = 'histogram';
  const get = async () => ({ name, help, type, aggregator: 'sum', values: [...all()].flatMap(samplesOf) });
  // The registry needs a name and `get` alone.
  for (const registry of registers) registry.registerMetric({ name, get } as unknown as Histogram);
}

/** A histogram whose series come into being with their first observation. */
export function createHistogram(parts: Omit<Parameters<typeof registerHistogram>[0], 'all'>) {
  const series = new Map<string, Counted>();
  registerHistogram({ ...parts, all: () => series.values() });
  return {
    labels(labels: Labels): Series {
      const key = JSON.stringify(labels);
      const known = series.get(key) ?? createSeries(labels, parts.buckets);
      series.set(key, known);
      return known;
    },
  };
}
