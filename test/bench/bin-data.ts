/** Benchmark of BIN data: import, load, search and bulk lookups of a data set as large as the largest public one. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { writeRows } from './bin-rows.ts';
import { prepareRequest } from './connection.ts';
import { type Effort, print } from './effort.ts';
import { type Finding, formatFindings } from './findings.ts';
import { load, median } from './load.ts';
import { startGatehouseProcess } from './process.ts';
import { prepareGatehouse, reserveAddress, type Site, signIn, startIdentityProvider, withAll } from './site.ts';

const run = promisify(execFile);
const here = import.meta.dirname;
const ROWS = 375_000;
const BULK = 1_000;
const STARTS = 3;

export function benchBinData(effort: Effort): Promise<Finding[]> {
  return withAll(async (keep) => {
    const address = await reserveAddress();
    const { issuer } = keep(await startIdentityProvider([address]));
    const site = keep(await prepareGatehouse({ address, storage: 'embedded', issuer, platformUrl: address.url }));
    const directory = site.env.DATA_DIR ?? '';
    const file = join(directory, '..', 'rows.csv');
    const first = await writeRows(file, ROWS);
    // The first start creates the database, without which nothing is imported.
    await secondsToStart(site.env);
    const imported = await importRows(file, site.env);
    const { stdout } = await run(process.execPath, [join(here, 'bin-load.ts'), directory, String(first), String(ROWS)]);
    const loaded = JSON.parse(stdout);
    const starts: number[] = [];
    for (let start = 0; start < STARTS; start++) starts.push(await secondsToStart(site.env));
    const http = await postBulk(site, first, effort);
    const findings = [
      { what: `import of ${ROWS} rows`, measured: imported, unit: 's', target: { most: 15 } },
      { what: 'load', measured: loaded.loadMilliseconds / 1_000, unit: 's', target: { most: 1 } },
      { what: 'memory of the data set', measured: loaded.megabytes, unit: 'MB', target: { most: 60 } },
      { what: 'ready after start with it', measured: median(starts), unit: 's', target: { most: 1.5 } },
      { what: 'one lookup', measured: loaded.lookUpMicroseconds, unit: 'µs', target: { most: 2 } },
      { what: 'bulk, as a function', measured: loaded.bulkPerSecond, unit: '/s', target: { least: 400_000 } },
      { what: 'bulk, over HTTP', measured: http.perSecond, unit: '/s', target: { least: 100_000 } },
      { what: 'bulk, over HTTP, for each second of CPU time', measured: http.perCpuSecond, unit: '/s' },
    ];
    print(formatFindings(`BIN data, ${ROWS.toLocaleString('en-GB')} generated rows, embedded storage`, findings));
    return findings;
  });
}

async function importRows(file: string, env: Record<string, string>): Promise<number> {
  const startedAt = performance.now();
  const cli = join(here, '../../src/cli.ts');
  await run(process.execPath, [cli, 'bin', 'import', file], { env: { ...process.env, ...env } });
  return (performance.now() - startedAt) / 1_000;
}

async function secondsToStart(env: Record<string, string>): Promise<number> {
  const gatehouse = await startGatehouseProcess(env);
  await gatehouse.stop();
  return gatehouse.readyMilliseconds / 1_000;
}

/** Lookups per second, and per second of Gatehouse's CPU time, with a thousand different BINs in each request. */
async function postBulk(
  { url, env }: Pick<Site, 'url' | 'env'>,
  first: number,
  { seconds }: Effort,
): Promise<{ perSecond: number; perCpuSecond: number }> {
  const gatehouse = await startGatehouseProcess(env);
  try {
    const { cookie, session } = await signIn(url);
    const bins = Array.from({ length: BULK }, (_, index) => String((first + index * 373) * 100));
    const headers = { accept: 'application/json', 'content-type': 'application/json', cookie };
    const request = prepareRequest(`${url}/bin`, {
      method: 'POST',
      headers: { ...headers, 'x-csrf-token': String(session.csrfToken) },
      send: JSON.stringify({ bins }),
    });
    const sendFor = (forSeconds: number) => load(() => request, { connections: 4, seconds: forSeconds });
    await sendFor(1);
    const cpuSecondsBefore = gatehouse.cpuSeconds();
    const loaded = await sendFor(seconds);
    const lookUps = loaded.requests * BULK;
    return { perSecond: lookUps / loaded.seconds, perCpuSecond: lookUps / (gatehouse.cpuSeconds() - cpuSecondsBefore) };
  } finally {
    await gatehouse.stop();
  }
}
