/** The memory that survives a relayed call must be small, because each garbage collection copies it. */
import { expect, test } from 'vitest';
import { startProgram } from '../support/program.ts';
import { missingRedis } from '../support/redis-server.ts';
import { inTurn, load } from './load.ts';
import { createSignedInUsers } from './signed-in-users.ts';
import { prepareGatehouse, reserveAddress, startPlatform, withAll } from './site.ts';

/** Few, so that hardly any request is in progress during a garbage collection. */
const CONNECTIONS = 4;
const MIN_COLLECTIONS = 8;
/** A request allocates about 40,000 bytes. The limit includes requests in progress. */
const MAX_BYTES = 1_500;

/** Returns the bytes that survived two collections of the young generation, from the traces of V8. */
function survivingBytes(trace: string): { bytes: number; collections: number } {
  const heaps = [...trace.matchAll(/Scavenge [\d.]+ \([\d.]+\) -> ([\d.]+) /g)].map(([, megabytes]) =>
    Number(megabytes),
  );
  // A full collection in between makes the heap smaller. Ignore this step.
  const growths = heaps.slice(1).map((megabytes, index) => Math.max(0, megabytes - (heaps[index] ?? megabytes)));
  return { bytes: growths.reduce((sum, megabytes) => sum + megabytes, 0) * 1e6, collections: growths.length };
}

test.skipIf(missingRedis !== undefined)('a relayed call leaves nothing behind that outlives it', () =>
  withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const parts = { address: await reserveAddress(), issuer: 'https://idp.bench.example', platformUrl: platform.url };
    const site = keep(await prepareGatehouse({ ...parts, storage: 'Redis' }));
    const server = startProgram([process.execPath, '--trace-gc', 'src/server.ts'], site.env);
    keep({
      async stop() {
        server.signal('SIGTERM');
        await server.ended;
      },
    });
    await server.printed('Gatehouse is ready');
    const nextRequest = inTurn(await createSignedInUsers(site, 20));
    await load(nextRequest, { connections: CONNECTIONS, seconds: 0.7 });
    const warmUpLength = server.stdout().length;
    const measure = () => survivingBytes(server.stdout().slice(warmUpLength));
    let requests = 0;
    while (measure().collections < MIN_COLLECTIONS)
      requests += (await load(nextRequest, { connections: CONNECTIONS, seconds: 0.3 })).requests;
    expect(measure().bytes / requests).toBeLessThan(MAX_BYTES);
  }),
);
