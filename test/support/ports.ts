/** Ports for the servers of tests. Each test process has its own range, so that no two processes get the same port. */
import { createServer, type Server } from 'node:net';

// Below the ephemeral ports, which outgoing connections can occupy at any time.
const FIRST_PORT = 10_000;
const STRIDE = 225;
const PORTS_EACH = STRIDE - 1;
const RANGES = 100;

let range: Promise<number> | undefined;
let offset = 0;

/**
 * Returns a port that was free a moment ago. It is returned again only after all others of the range.
 * @param count number of consecutive ports; the first is returned
 */
export async function freePort(count = 1): Promise<number> {
  range ??= claimRange();
  const first = await range;
  for (let tries = 0; tries < PORTS_EACH; tries += 1) {
    // Consecutive ports must not cross the end of the range.
    if ((offset % PORTS_EACH) + count > PORTS_EACH) offset += PORTS_EACH - (offset % PORTS_EACH);
    const port = first + (offset % PORTS_EACH);
    offset += count;
    const free = await Promise.all(Array.from({ length: count }, (_, at) => isFree(port + at)));
    if (!free.includes(false)) return port;
  }
  throw new Error('None of the ports of this process is free.');
}

/** A process claims a range by listening on its first port, so that other runs on this machine use other ranges. */
async function claimRange(): Promise<number> {
  const preferred = Number(process.env.VITEST_POOL_ID ?? 0);
  for (let tries = 0; tries < RANGES; tries += 1) {
    const first = FIRST_PORT + ((preferred + tries) % RANGES) * STRIDE;
    const guard = await listenOn(first);
    guard?.unref();
    if (guard) return first + 1;
  }
  throw new Error('All ranges of ports are in use: too many test runs at the same time.');
}

async function isFree(port: number): Promise<boolean> {
  const server = await listenOn(port);
  if (server) await new Promise<void>((resolve) => server.close(() => resolve()));
  return server !== undefined;
}

function listenOn(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
