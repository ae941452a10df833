/** The memory that survives a relayed call must be small, because each garbage collection copies it. */
import { expect, test } from 'vitest';
import { startProgram } from '../support/program.ts';
import { missingRedis } from '../support/redis-server.ts';
import { inTurn, load } from './load.ts';
import { seatPeople } from './people.ts';
import { prepareGatehouse, reservePlace, startPlatform, withAll } from './site.ts';

/** Few, so that hardly any request is in progress during a garbage collection. */
const CONNECTIONS = 4;
const MIN_COLLECTIONS = 8;
/** A request allocates about 40,000 bytes. The limit includes requests in progress. */
const MAX_BYTES = 1_500;

/** Bytes that survived two collections of the young generation, from the traces of V8. */
function outlived(trace: string): { bytes: number; collections: number } {
  const heaps = [...trace.matchAll(/Scavenge [\d.]+ \([\d.]+\) -> ([\d.]+) /g)].map(([, left]) => Number(left));
  // A full collection in between makes the heap smaller. Ignore this step.
  const steps = heaps.slice(1).map((left, n) => Math.max(0, left - (heaps[n] ?? left)));
  return { bytes: steps.reduce((sum, step) => sum + step, 0) * 1e6, collections: steps.length };
}

test.skipIf(missingRedis !== undefined)('a relayed call leaves nothing behind that outlives it', () =>
  withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const parts = { place: await reservePlace(), issuer: 'https://idp.bench.example', platformUrl: platform.url };
    const site = keep(await prepareGatehouse({ ...parts, storage: 'Redis' }));
    const server = startProgram([process.execPath, '--trace-gc', 'src/server.ts'], site.env);
    keep({
      async stop() {
        server.signal('SIGTERM');
        await server.ended;
      },
    });
    await server.printed('Gatehouse is ready');
    const questions = inTurn(await seatPeople(site, 20));
    await load(questions, { connections: CONNECTIONS, seconds: 0.7 });
    const before = server.stdout().length;
    const seen = () => outlived(server.stdout().slice(before));
    let requests = 0;
    while (seen().collections < MIN_COLLECTIONS)
      requests += (await load(questions, { connections: CONNECTIONS, seconds: 0.3 })).requests;
    expect(seen().bytes / requests).toBeLessThan(MAX_BYTES);
  }),
);
