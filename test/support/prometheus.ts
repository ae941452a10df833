/** Runs promtool, and a Prometheus of the test's own, over the rules and the dashboard that are shipped. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killOnExit } from './left-running.ts';
import { freePort } from './ports.ts';
import { until } from './until.ts';

export const missingPrometheus =
  spawnSync('promtool', ['--version']).status === 0 && spawnSync('prometheus', ['--version']).status === 0
    ? undefined
    : 'prometheus';

/** @returns what promtool printed, of both kinds, and its exit status */
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
  /** Asks for the value of an expression now. */
  query(expression: string): Promise<Sample[]>;
  close(): Promise<void>;
}

const EVERY_SECOND = { scrape_interval: '1s', evaluation_interval: '1s' };

/** Scrapes these management listeners once a second, as the job `gatehouse`. @param rules paths of files with alert rules */
export async function startPrometheus(
  managementUrls: readonly string[],
  rules: readonly string[] = [],
): Promise<Prometheus> {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-prometheus-'));
  const file = join(directory, 'prometheus.yml');
  const targets = managementUrls.map((url) => new URL(url).host);
  const job = { job_name: 'gatehouse', static_configs: [{ targets }] };
  writeFileSync(file, JSON.stringify({ global: EVERY_SECOND, rule_files: rules, scrape_configs: [job] }));
  const at = `127.0.0.1:${await freePort()}`;
  const child = killOnExit(
    spawn(
      'prometheus',
      [`--config.file=${file}`, `--storage.tsdb.path=${join(directory, 'data')}`, `--web.listen-address=${at}`],
      { stdio: 'ignore' },
    ),
  );
  const ended = once(child, 'exit');
  const prometheus: Prometheus = {
    async query(expression) {
      const body = new URLSearchParams({ query: expression });
      const response = await fetch(`http://${at}/api/v1/query`, { method: 'POST', body });
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
    fetch(`http://${at}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return prometheus;
}
