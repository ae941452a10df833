/** Benchmark of sign-ins: the whole flow through the provider's forms, and its CPU time on the server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { missingRedis } from '../support/redis-server.ts';
import { type Effort, print } from './effort.ts';
import { type Finding, formatFindings } from './findings.ts';
import { median } from './load.ts';
import { LIBRARY_PEER, peersAreInstalled, startPeer } from './peers.ts';
import type { Measured } from './process.ts';
import { reserveAddress, type Storage, signIn, startGatehouse, startIdentityProvider, withAll } from './site.ts';

interface SignInServer {
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
    const addresses = await Promise.all([...storages, LIBRARY_PEER].map(reserveAddress));
    const { issuer } = keep(await startIdentityProvider(addresses));
    const servers: SignInServer[] = [];
    for (const [n, address] of addresses.entries()) {
      const storage = storages[n];
      const parts = { address, issuer, platformUrl: address.url };
      if (storage)
        servers.push({ ...keep(await startGatehouse({ ...parts, storage })), name: `Gatehouse, ${storage}` });
      else if (hasRedis && peersAreInstalled()) servers.push(keep(await startPeer(LIBRARY_PEER, parts)));
    }
    const rounds = new Map<SignInServer, Round[]>(servers.map((server) => [server, []]));
    for (const server of servers) await measureSignIns(server, WARM_UP);
    // Gatehouse records the first 300 sign-ins of a minute. The measured ones must be among them.
    await sleep(MINUTE_MILLISECONDS - (Date.now() % MINUTE_MILLISECONDS));
    const signInsOfRound = Math.ceil(SIGN_INS_A_SECOND * seconds);
    for (let round = 0; round < runs; round++)
      for (const server of servers) rounds.get(server)?.push(await measureSignIns(server, signInsOfRound));
    const findings = judge(servers, (server) => rounds.get(server) ?? []);
    print(formatFindings(`Sign-ins, the whole flow, ${BROWSERS} browsers, medians of ${runs} runs in turn`, findings));
    return findings;
  });
}

function judge(servers: readonly SignInServer[], roundsOf: (server: SignInServer) => readonly Round[]): Finding[] {
  const medianOf = (server: SignInServer, key: keyof Round) => median(roundsOf(server).map((round) => round[key]));
  const figures = servers.flatMap((server): Finding[] => [
    {
      what: `${server.name}: CPU of the server for a sign-in`,
      measured: medianOf(server, 'cpuMilliseconds'),
      unit: 'ms',
    },
    {
      what: `${server.name}: sign-ins, provider on the same machine`,
      measured: medianOf(server, 'perSecond'),
      unit: '/s',
    },
  ]);
  const peer = servers.find(({ name }) => name === LIBRARY_PEER);
  if (!peer) return figures;
  const comparisons = servers
    .filter((server) => server !== peer)
    .map((server): Finding => {
      // Compare the same round, because other work on the machine affects both equally.
      const peers = roundsOf(peer);
      const ratios = roundsOf(server).map(
        (round, n) => round.cpuMilliseconds / (peers[n]?.cpuMilliseconds ?? Number.NaN),
      );
      return {
        what: `${server.name}: CPU against ${LIBRARY_PEER}`,
        measured: median(ratios),
        unit: '',
        target: { most: 1.7 },
      };
    });
  return [...figures, ...comparisons];
}

/** Uses a new browser for each sign-in. */
async function measureSignIns({ url, process }: SignInServer, number: number): Promise<Round> {
  const cpuSecondsBefore = process.cpuSeconds();
  const startedAt = performance.now();
  let started = 0;
  const browse = async () => {
    while (started < number) {
      started += 1;
      await signIn(url);
    }
  };
  await Promise.all(Array.from({ length: BROWSERS }, browse));
  return {
    perSecond: number / ((performance.now() - startedAt) / 1000),
    cpuMilliseconds: ((process.cpuSeconds() - cpuSecondsBefore) / number) * 1000,
  };
}
