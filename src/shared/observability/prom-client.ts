/**
 * Loads the used parts of prom-client. Its main file would also load `@opentelemetry/api`, for exemplars, which takes
 * longer than the rest of the package.
 */
import { createRequire } from 'node:module';
import type * as PromClient from 'prom-client';

const require = createRequire(import.meta.url);

export type Counter<Label extends string = string> = PromClient.Counter<Label>;
export type Histogram<Label extends string = string> = PromClient.Histogram<Label>;
export type Registry = PromClient.Registry;

export const Counter: typeof PromClient.Counter = require('prom-client/lib/counter');
export const Histogram: typeof PromClient.Histogram = require('prom-client/lib/histogram');
export const Gauge: typeof PromClient.Gauge = require('prom-client/lib/gauge');
export const Registry: typeof PromClient.Registry = require('prom-client/lib/registry');

/** The metrics of `collectDefaultMetrics`, in its order, except the CPU metrics. */
const DEFAULT_METRICS = [
  'processStartTime',
  'osMemoryHeap',
  'processOpenFileDescriptors',
  'processMaxFileDescriptors',
  'eventLoopLag',
  'processResources',
  'processHandles',
  'processRequests',
  'heapSizeAndUsed',
  'heapSpacesSizeAndUsed',
  'version',
  'gc',
];

/** The default of `collectDefaultMetrics`, in milliseconds. */
const EVENT_LOOP_PRECISION = { eventLoopMonitoringPrecision: 10 };

/** Registers the process metrics of prom-client, under the same names. */
export function collectDefaultMetrics(registry: PromClient.Registry): void {
  cpuCounter(registry, 'user_', 'user', ({ user }) => user);
  cpuCounter(registry, 'system_', 'system', ({ system }) => system);
  cpuCounter(registry, '', 'user and system', ({ user, system }) => user + system);
  for (const name of DEFAULT_METRICS) require(`prom-client/lib/metrics/${name}`)(registry, EVENT_LOOP_PRECISION);
}

function cpuCounter(
  registry: PromClient.Registry,
  infix: string,
  kind: string,
  microseconds: (usage: NodeJS.CpuUsage) => number,
): void {
  new Counter({
    name: `process_cpu_${infix}seconds_total`,
    help: `Total ${kind} CPU time spent in seconds.`,
    registers: [registry],
    collect() {
      this.reset();
      this.inc(microseconds(process.cpuUsage()) / 1e6);
    },
  });
}
