/** Owns ports for the servers of tests: each worker of a run has ports of its own, so that no two are given the same one. */
import { createServer } from 'node:net';

// Below the ports that the system gives to outgoing connections: one of those may be taken before it is used.
const FIRST_PORT = 10_000;
const PORTS_EACH = 1_400;
const WORKERS = 15;

const first = FIRST_PORT + (Number(process.env.VITEST_POOL_ID ?? 0) % WORKERS) * PORTS_EACH;
let given = 0;

/**
 * Free a moment ago, and given to nobody else for as long as the worker's others last.
 * @param count how many in a row; the first one is answered
 */
export async function freePort(count = 1): Promise<number> {
  for (let tries = 0; tries < PORTS_EACH; tries += 1) {
    // Those in a row do not go over the end.
    if ((given % PORTS_EACH) + count > PORTS_EACH) given += PORTS_EACH - (given % PORTS_EACH);
    const port = first + (given % PORTS_EACH);
    given += count;
    const free = await Promise.all(Array.from({ length: count }, (_, at) => isFree(port + at)));
    if (!free.includes(false)) return port;
  }
  throw new Error('None of the ports of this worker is free.');
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
