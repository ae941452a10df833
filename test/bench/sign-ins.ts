/** Benchmark of sign-ins: the whole flow through the provider's forms, and its CPU time on the server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { missingRedis } from '../support/redis-server.ts';
import { type Effort, say } from './effort.ts';
import { type Finding, tellFindings } from './findings.ts';
import { median } from './load.ts';
import { LIBRARY_PEER, peersAreInstalled, startPeer } from './peers.ts';
import type { Measured } from './process.ts';
import { reservePlace, type Storage, signIn, startGatehouse, startIdentityProvider, withAll } from './site.ts';

interface Door {
  name: string;
  url: string;
  process: Measured;
}

interface Round {
  perSecond: number;
  cpuMilliseconds: number;
}

/** Number of concurrent browsers. */
const BROWSERS = 4;
/** Sign-ins per second of a run. The number is the same for all servers, so that their code is equally warm. */
const SIGN_INS_A_SECOND = 20;
/** Until its code is compiled, a server needs up to twice as much time for the first few hundred sign-ins. */
const WARM_UP = 400;
const MINUTE_MILLISECONDS = 60_000;

export function benchSignIns({ seconds, runs }: Effort): Promise<Finding[]> {
  return withAll(async (keep) => {
    const hasRedis = missingRedis === undefined;
    const storages: Storage[] = hasRedis ? ['embedded', 'Redis'] : ['embedded'];
    const places = await Promise.all([...storages, LIBRARY_PEER].map(reservePlace));
    const { issuer } = keep(await startIdentityProvider(places));
    const doors: Door[] = [];
    for (const [n, place] of places.entries()) {
      const storage = storages[n];
      const parts = { place, issuer, platformUrl: place.url };
      if (storage) doors.push({ ...keep(await startGatehouse({ ...parts, storage })), name: `Gatehouse, ${storage}` });
      else if (hasRedis && peersAreInstalled()) doors.push(keep(await startPeer(LIBRARY_PEER, parts)));
    }
    const rounds = new Map<Door, Round[]>(doors.map((door) => [door, []]));
    for (const door of doors) await signInsAt(door, WARM_UP);
    // Gatehouse records the first 300 sign-ins of a minute. The measured ones must be among them.
    await sleep(MINUTE_MILLISECONDS - (Date.now() % MINUTE_MILLISECONDS));
    const each = Math.ceil(SIGN_INS_A_SECOND * seconds);
    for (let round = 0; round < runs; round++)
      for (const door of doors) rounds.get(door)?.push(await signInsAt(door, each));
    const findings = judge(doors, (door) => rounds.get(door) ?? []);
    say(tellFindings(`Sign-ins, the whole flow, ${BROWSERS} browsers, medians of ${runs} runs in turn`, findings));
    return findings;
  });
}

function judge(doors: readonly Door[], roundsOf: (door: Door) => readonly Round[]): Finding[] {
  const middle = (door: Door, key: keyof Round) => median(roundsOf(door).map((round) => round[key]));
  const figures = doors.flatMap((door): Finding[] => [
    { what: `${door.name}: CPU of the server for a sign-in`, measured: middle(door, 'cpuMilliseconds'), unit: 'ms' },
    { what: `${door.name}: sign-ins, provider on the same machine`, measured: middle(door, 'perSecond'), unit: '/s' },
  ]);
  const peer = doors.find(({ name }) => name === LIBRARY_PEER);
  if (!peer) return figures;
  const against = doors
    .filter((door) => door !== peer)
    .map((door): Finding => {
      // Compare the same round, because other work on the machine affects both equally.
      const peers = roundsOf(peer);
      const ratios = roundsOf(door).map(
        (round, n) => round.cpuMilliseconds / (peers[n]?.cpuMilliseconds ?? Number.NaN),
      );
      return {
        what: `${door.name}: CPU against ${LIBRARY_PEER}`,
        measured: median(ratios),
        unit: '',
        target: { most: 1.7 },
      };
    });
  return [...figures, ...against];
}

/** Uses a new browser for each sign-in. */
async function signInsAt({ url, process }: Door, number: number): Promise<Round> {
  const before = process.cpuSeconds();
  const startedAt = performance.now();
  let begun = 0;
  const browse = async () => {
    while (begun < number) {
      begun += 1;
      await signIn(url);
    }
  };
  await Promise.all(Array.from({ length: BROWSERS }, browse));
  return {
    perSecond: number / ((performance.now() - startedAt) / 1000),
    cpuMilliseconds: ((process.cpuSeconds() - before) / number) * 1000,
  };
}
