/** What a relayed call leaves behind: next to nothing may outlive it, or each garbage collection copies it. */
import { expect, test } from 'vitest';
import { startProgram } from '../support/program.ts';
import { missingRedis } from '../support/redis-server.ts';
import { inTurn, load } from './load.ts';
import { seatPeople } from './people.ts';
import { prepareGatehouse, reservePlace, startPlatform, withAll } from './site.ts';

/** Few, so that hardly anything is under way while garbage is collected. */
const CONNECTIONS = 4;
const LEAST_COLLECTIONS = 8;
/** A request makes some 40,000; what was under way counts as well. */
const MOST_BYTES = 1_500;

/** Bytes that outlived two collections of the young generation, as V8 traces them. */
function outlived(trace: string): { bytes: number; collections: number } {
  const heaps = [...trace.matchAll(/Scavenge [\d.]+ \([\d.]+\) -> ([\d.]+) /g)].map(([, left]) => Number(left));
  // A full collection in between makes the heap smaller: that one step counts for nothing.
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
    while (seen().collections < LEAST_COLLECTIONS)
      requests += (await load(questions, { connections: CONNECTIONS, seconds: 0.3 })).requests;
    expect(seen().bytes / requests).toBeLessThan(MOST_BYTES);
  }),
);
