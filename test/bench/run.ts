/**
 * Owns `npm run bench`: Gatehouse as shipped beside a bare Node proxy, in turn, in one run. The machine is noisy, so the
 * ratio of medians is what counts. `--check` fails below the target, `--seconds N` and `--rounds N` change the effort.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import autocannon from 'autocannon';
import { type Measured, startProcess } from './process.ts';
import { freePort, signIn, startSandboxFor, writeSettings } from './site.ts';

const { values } = parseArgs({
  options: {
    check: { type: 'boolean' },
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '5' },
  },
});
const here = import.meta.dirname;
const TARGETS: Record<number, number> = { 32: 0.4 };

interface Contestant {
  name: string;
  url: string;
  headers: Record<string, string>;
  process: Measured;
}

interface Figures {
  requestsPerSecond: number;
  p50: number;
  p99: number;
  cpuPer1000: number | undefined;
}

const upstream = await startProcess(join(here, 'upstream.ts'));
const upstreamUrl = `http://127.0.0.1:${upstream.firstLine}`;
const port = await freePort();
const url = `http://127.0.0.1:${port}`;
const sandbox = await startSandboxFor(url);
const settings = await writeSettings({ url, port, sandbox, upstreamUrl });
const gatehouse = await startProcess(join(here, '../../src/server.ts'), [], settings.env);
const bare = await startProcess(join(here, 'bare-proxy.ts'), [upstreamUrl]);

const contestants: Contestant[] = [
  { name: 'bare node:http + undici', url: `http://127.0.0.1:${bare.firstLine}/`, headers: {}, process: bare },
  {
    name: 'Gatehouse /threads/current',
    url: `${url}/threads/current`,
    headers: { accept: 'application/json', cookie: await signIn(url) },
    process: gatehouse,
  },
];

let failed = false;
for (const connections of [32, 256]) {
  const rounds = new Map<string, Figures[]>(contestants.map(({ name }) => [name, []]));
  for (const one of contestants) await load(one, connections, 1);
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const one of contestants) rounds.get(one.name)?.push(await load(one, connections, Number(values.seconds)));
  }
  failed = report(connections, rounds) || failed;
}

for (const one of [gatehouse, bare, upstream]) await one.stop();
await sandbox.close();
settings.remove();
process.exit(failed && values.check ? 1 : 0);

/** One run; every answer has to be the upstream's, to the byte. */
async function load(
  { url: target, headers, process: measured, name }: Contestant,
  connections: number,
  seconds: number,
): Promise<Figures> {
  const before = measured.cpuSeconds();
  const expectBody = JSON.stringify({ thread: { id: 'bench', title: 'Benchmark' }, html: 'x'.repeat(960) });
  const result = await autocannon({ url: target, headers, connections, duration: seconds, expectBody });
  const after = measured.cpuSeconds();
  if (result.errors + result.non2xx + result.mismatches > 0) throw new Error(`${name} gave wrong answers`);
  return {
    requestsPerSecond: result.requests.total / result.duration,
    p50: result.latency.p50,
    p99: result.latency.p99,
    cpuPer1000:
      before === undefined || after === undefined ? undefined : ((after - before) / result.requests.total) * 1000,
  };
}

/** Prints the table; answers true where a target is missed. */
function report(connections: number, rounds: Map<string, Figures[]>): boolean {
  const [limit = [], ours = []] = [...rounds.values()];
  const ratios = ours.map(
    (figures, index) => figures.requestsPerSecond / (limit[index]?.requestsPerSecond ?? Number.NaN),
  );
  process.stdout.write(`\nconcurrency ${connections}, medians of ${ours.length} rounds in turn\n`);
  for (const [name, figures] of rounds) {
    const of = (key: keyof Figures) => median(figures.map((one) => one[key] ?? Number.NaN));
    process.stdout.write(
      `  ${name.padEnd(28)} ${of('requestsPerSecond').toFixed(0).padStart(7)} req/s   p50 ${of('p50')} ms   p99 ${of('p99')} ms   ${of('cpuPer1000').toFixed(3)} CPU s / 1,000\n`,
    );
  }
  const target = TARGETS[connections];
  const ratio = median(ratios);
  process.stdout.write(
    `  ratio ${ratio.toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)})${target ? `, target ${target}` : ''}\n`,
  );
  return target !== undefined && ratio < target;
}

function median(values: number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
