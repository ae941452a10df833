/** Stores the last figures of each part in results.json, and draws the chart that README shows. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';
import { missingRedis } from '../support/redis-server.ts';
import { chart } from './chart.ts';
import type { Effort, Outcome } from './effort.ts';
import { isMissed } from './findings.ts';
import { PEERS } from './peers.ts';

const FILE = join(import.meta.dirname, 'results.json');
const PICTURE = join(import.meta.dirname, '../../docs/bench.svg');

/** Only the parts that were measured now are written anew. */
export function keepResults(outcomes: ReadonlyMap<string, Outcome>, effort: Effort): void {
  const known = existsSync(FILE) ? JSON.parse(readFileSync(FILE, 'utf8')) : {};
  const about = { measuredAt: new Date().toISOString(), ...effort, ...machine() };
  const measured = [...outcomes].map(([part, { tables, findings }]) => [
    part,
    { ...about, tables, findings: findings.map((finding) => ({ ...finding, missed: isMissed(finding) })) },
  ]);
  const results = { ...known, ...Object.fromEntries(measured) };
  writeFileSync(FILE, `${JSON.stringify(results, rounded, 2)}\n`);
}

/** Answers false, with the picture left as it was, where somebody is missing in it. */
export function drawPicture({ tables }: Outcome): boolean {
  if (!Object.keys(PEERS).every((peer) => tables.some(({ name }) => name === peer))) return false;
  writeFileSync(PICTURE, chart(tables));
  return true;
}

function machine(): Record<string, unknown> {
  const redis =
    missingRedis === undefined
      ? { redis: /v=([\d.]+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))?.[1] }
      : {};
  return { cores: availableParallelism(), processor: cpus()[0]?.model, node: process.versions.node, ...redis };
}

/** Four digits tell all that there is to tell. */
function rounded(_key: string, value: unknown): unknown {
  return typeof value === 'number' ? Number(value.toPrecision(4)) : value;
}
