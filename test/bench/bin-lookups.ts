/** Benchmark of single BIN lookups: Gatehouse and the BIN lookup service, and servers that only send JSON. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../support/ports.ts';
import { missingRedis } from '../support/redis-server.ts';
import { prepareRequest } from './connection.ts';
import { type Contestant, contest } from './contest.ts';
import { type Effort, print } from './effort.ts';
import { type Finding, formatFindings } from './findings.ts';
import { type Measured, startProcess } from './process.ts';
import { reserveAddress, type Storage, signIn, startGatehouse, startIdentityProvider, withAll } from './site.ts';
import { table } from './table.ts';

const BIN = '45717360';
const CONNECTIONS = 32;
const UNLIMITED = 999_999_999;
const SERVICE = 'BIN lookup service, GET /{bin}, counted';

export function benchBinLookUps(effort: Effort): Promise<Finding[]> {
  return withAll(async (keep) => {
    const storages: Storage[] = missingRedis === undefined ? ['embedded', 'Redis'] : ['embedded'];
    const addresses = await Promise.all(storages.map(reserveAddress));
    const { issuer } = keep(await startIdentityProvider(addresses));
    const service = keep(await startService());
    const record = await bodyOf(service.url, {});
    const contestants: Contestant[] = [];
    for (const [name, server] of [
      ['bare Express 5, JSON', 'express'],
      ['bare node:http, JSON', 'node'],
    ] as const) {
      const env = { SERVER: server, RECORD: String(record) };
      const bare = keep(await startProcess('test/bench/bare-json.ts', { env }));
      contestants.push(await contestant(name, `http://127.0.0.1:${bare.firstLine}/${BIN}`, {}, bare));
    }
    contestants.push(await contestant(SERVICE, service.url, {}, service.process));
    for (const [index, storage] of storages.entries()) {
      const address = addresses[index];
      if (!address) continue;
      // The platform is not called here.
      const site = keep(await startGatehouse({ address, storage, issuer, platformUrl: address.url }));
      const { cookie } = await signIn(site.url);
      contestants.push(await contestant(`/bin/{bin}, ${storage}`, `${site.url}/bin/${BIN}`, { cookie }, site.process));
    }
    const quotaBefore = await service.readQuota();
    const rows = await contest(contestants, CONNECTIONS, effort);
    print(table(`BIN lookups, ${CONNECTIONS} connections, medians of ${effort.runs} runs in turn`, rows));
    if ((await service.readQuota()) >= quotaBefore - 1) throw new Error('The BIN lookup service has counted nothing.');
    const findings: Finding[] = rows.slice(2).map(({ name, ratio }) => ({
      what: name,
      measured: ratio,
      unit: '',
      target: name === SERVICE ? { least: 0.75, goal: 0.9 } : { least: 0.6 },
    }));
    print(formatFindings('In relation to bare Express 5 of the same run', findings));
    return findings;
  });
}

interface Service {
  process: Measured;
  url: string;
  /** Remaining lookups of the quota, as the service reports them. This uses one. */
  readQuota(): Promise<number>;
  stop(): Promise<void>;
}

/** The shipped service, with its quota in SQLite. */
async function startService(): Promise<Service> {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-bench-bin-'));
  const port = await freePort();
  const process = await startProcess('src/bin-lookup-service.ts', {
    ready: 'is ready',
    env: {
      PORT: String(port),
      MANAGEMENT_PORT: String(await freePort()),
      DATA_DIR: directory,
      FREE_MONTHLY_REQUESTS: String(UNLIMITED),
      FREE_REQUESTS_PER_MINUTE: String(UNLIMITED),
    },
  });
  const url = `http://127.0.0.1:${port}/${BIN}`;
  return {
    process,
    url,
    async readQuota() {
      const response = await fetch(url);
      await response.text();
      return Number(/r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1]);
    },
    async stop() {
      await process.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Every response must equal the first one. */
async function contestant(
  name: string,
  url: string,
  requestHeaders: Record<string, string>,
  process: Measured,
): Promise<Contestant> {
  const headers = { accept: 'application/json', ...requestHeaders };
  const request = prepareRequest(url, { headers, body: await bodyOf(url, headers) });
  return { name, nextRequest: () => request, processes: [process] };
}

async function bodyOf(url: string, headers: Record<string, string>): Promise<Buffer> {
  const response = await fetch(url, { headers });
  const body = Buffer.from(await response.arrayBuffer());
  if (response.status !== 200 || !body.includes('"')) throw new Error(`${url} returns ${response.status} ${body}`);
  return body;
}
