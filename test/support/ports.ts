/** Ports for the servers of tests. Each process that runs tests has a range of its own, so that no two get the same port. */
import { createServer, type Server } from 'node:net';

// Below the ports that the system gives to outgoing connections: one of those may be taken before it is used.
const FIRST_PORT = 10_000;
const STRIDE = 225;
const PORTS_EACH = STRIDE - 1;
const RANGES = 100;

let range: Promise<number> | undefined;
let given = 0;

/**
 * Free a moment ago, and given to nobody else for as long as the range's others last.
 * @param count how many in a row; the first one is answered
 */
export async function freePort(count = 1): Promise<number> {
  range ??= claimRange();
  const first = await range;
  for (let tries = 0; tries < PORTS_EACH; tries += 1) {
    // Those in a row do not go over the end.
    if ((given % PORTS_EACH) + count > PORTS_EACH) given += PORTS_EACH - (given % PORTS_EACH);
    const port = first + (given % PORTS_EACH);
    given += count;
    const free = await Promise.all(Array.from({ length: count }, (_, at) => isFree(port + at)));
    if (!free.includes(false)) return port;
  }
  throw new Error('None of the ports of this process is free.');
}

/** Whoever listens on the first port of a range has it, for as long as the process lives: another run on this machine takes others. */
async function claimRange(): Promise<number> {
  const wanted = Number(process.env.VITEST_POOL_ID ?? 0);
  for (let tries = 0; tries < RANGES; tries += 1) {
    const first = FIRST_PORT + ((wanted + tries) % RANGES) * STRIDE;
    const guard = await listenOn(first);
    guard?.unref();
    if (guard) return first + 1;
  }
  throw new Error('All ranges of ports are taken: too many runs of tests at the same time.');
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
