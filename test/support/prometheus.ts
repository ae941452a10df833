/** Runs promtool and a Prometheus with the shipped rules and dashboard. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killOnExit } from './child-processes.ts';
import { freePort } from './ports.ts';
import { until } from './until.ts';

export const missingPrometheus =
  spawnSync('promtool', ['--version']).status === 0 && spawnSync('prometheus', ['--version']).status === 0
    ? undefined
    : 'prometheus';

/** @returns the output of promtool (standard output and error) and its exit status */
export function promtool(args: readonly string[], input = ''): { status: number | null; text: string } {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' });
  return { status, text: stdout + stderr };
}

/** One value of a series: its labels, its time in seconds, and its value as text. */
export interface Sample {
  metric: Record<string, string>;
  value: [number, string];
}

export interface Prometheus {
  /** Returns the current value of an expression. */
  query(expression: string): Promise<Sample[]>;
  close(): Promise<void>;
}

const EVERY_SECOND = { scrape_interval: '1s', evaluation_interval: '1s' };

/** Scrapes these management listeners every second, as the job `gatehouse`. @param rules paths of alert rules */
export async function startPrometheus(
  managementUrls: readonly string[],
  rules: readonly string[] = [],
): Promise<Prometheus> {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-prometheus-'));
  const file = join(directory, 'prometheus.yml');
  const targets = managementUrls.map((url) => new URL(url).host);
  const job = { job_name: 'gatehouse', static_configs: [{ targets }] };
  writeFileSync(file, JSON.stringify({ global: EVERY_SECOND, rule_files: rules, scrape_configs: [job] }));
  const address = `127.0.0.1:${await freePort()}`;
  const child = killOnExit(
    spawn(
      'prometheus',
      [`--config.file=${file}`, `--storage.tsdb.path=${join(directory, 'data')}`, `--web.listen-address=${address}`],
      { stdio: 'ignore' },
    ),
  );
  const ended = once(child, 'exit');
  const prometheus: Prometheus = {
    async query(expression) {
      const body = new URLSearchParams({ query: expression });
      const response = await fetch(`http://${address}/api/v1/query`, { method: 'POST', body });
      const { data, error } = (await response.json()) as { data?: { result: Sample[] }; error?: string };
      if (!data) throw new Error(`Prometheus refuses ${expression}: ${error}`);
      return data.result;
    },
    async close() {
      child.kill('SIGTERM');
      await ended;
      rmSync(directory, { recursive: true, force: true });
    },
  };
  await until(() =>
    fetch(`http://${address}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return prometheus;
}
