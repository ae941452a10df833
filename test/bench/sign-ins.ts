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

/** Browsers at the same time. */
const BROWSERS = 4;
/** For each second of a run: everybody signs as many in, so that nobody's code is warmer than the others'. */
const SIGN_INS_A_SECOND = 20;
/** A server compiles what it runs: the first hundreds of its sign-ins cost up to twice as much as those that follow. */
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
    // Gatehouse keeps records of the first 300 sign-ins that are begun in a minute: those that are measured have to be among them.
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
  const middle = (door: Door, key: keyof Round) => median(roundsOf(door).map((one) => one[key]));
  const told = doors.flatMap((door): Finding[] => [
    { what: `${door.name}: CPU of the server for a sign-in`, measured: middle(door, 'cpuMilliseconds'), unit: 'ms' },
    { what: `${door.name}: sign-ins, provider on the same machine`, measured: middle(door, 'perSecond'), unit: '/s' },
  ]);
  const peer = doors.find(({ name }) => name === LIBRARY_PEER);
  if (!peer) return told;
  const against = doors
    .filter((door) => door !== peer)
    .map((door): Finding => {
      // Of the same round each: other work on the machine hits both alike.
      const peers = roundsOf(peer);
      const ratios = roundsOf(door).map((one, n) => one.cpuMilliseconds / (peers[n]?.cpuMilliseconds ?? Number.NaN));
      return {
        what: `${door.name}: CPU against ${LIBRARY_PEER}`,
        measured: median(ratios),
        unit: '',
        target: { most: 1.7 },
      };
    });
  return [...told, ...against];
}

/** Each browser is a new one. */
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
