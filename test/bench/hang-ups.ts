/** Benchmark of clients that disconnect in the middle of a response, and of the clients after them. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { missingRedis } from '../support/redis-server.ts';
import { type Question, questionOf } from './connection.ts';
import { type Effort, say } from './effort.ts';
import { type Finding, tellFindings } from './findings.ts';
import { LIBRARY_PEER, peersAreInstalled, startPeer } from './peers.ts';
import {
  type Platform,
  reservePlace,
  signIn,
  startGatehouse,
  startIdentityProvider,
  startPlatform,
  withAll,
} from './site.ts';

const CLIENTS = 2_000;
const AT_ONCE = 500;
/** Number of clients that get part of a response before they leave. Others wait for a connection to the platform. */
const ANSWERED = 32;
const WAIT_MILLISECONDS = 3_000;
const LONGEST_MILLISECONDS = 5_000;

export function benchHangUps(_effort: Effort): Promise<Finding[]> {
  return withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const [own, other] = await Promise.all([reservePlace(), reservePlace()]);
    const { issuer } = keep(await startIdentityProvider([own, other]));
    const parts = { issuer, platformUrl: platform.url };
    const site = keep(await startGatehouse({ ...parts, place: own, storage: 'embedded' }));
    const findings = await hangUp('Gatehouse', site.url, platform, true);
    if (missingRedis === undefined && peersAreInstalled()) {
      const peer = keep(await startPeer(LIBRARY_PEER, { ...parts, place: other }));
      // Idle connections of Gatehouse must not count for the peer.
      await site.stop();
      findings.push(...(await hangUp(LIBRARY_PEER, peer.url, platform, false)));
    }
    say(tellFindings(`${CLIENTS.toLocaleString('en-GB')} clients that disconnect during a response`, findings));
    return findings;
  });
}

async function hangUp(name: string, url: string, platform: Platform, judged: boolean): Promise<Finding[]> {
  const { cookie } = await signIn(url);
  const question = questionOf(`${url}/threads/current`, { headers: { accept: 'application/json', cookie } });
  await platform.control('drip');
  for (let round = 0; round < CLIENTS / AT_ONCE; round++) await leaveInTheMiddle(question);
  await platform.control('whole');
  const startedAt = performance.now();
  const signal = AbortSignal.timeout(LONGEST_MILLISECONDS);
  const status = await fetch(`${url}/threads/current`, {
    headers: { accept: 'application/json', cookie },
    signal,
  }).then(
    async (response) => (await response.arrayBuffer()) && response.status,
    () => 0,
  );
  const milliseconds = performance.now() - startedAt;
  const outcome = status === 200 ? 'the next response' : 'the next response, given up after';
  await sleep(1_000);
  const open = await platform.control('count');
  return [
    {
      what: `${name}: ${outcome}`,
      measured: milliseconds,
      unit: 'ms',
      ...(judged && { target: { most: 1_000 } }),
    },
    // The connection of the last request stays open for the next.
    {
      what: `${name}: connections to the platform left`,
      measured: open,
      unit: '',
      ...(judged && { target: { most: 1 } }),
    },
  ];
}

async function leaveInTheMiddle({ host, port, bytes }: Question): Promise<void> {
  let responses = 0;
  const sockets = Array.from({ length: AT_ONCE }, () => {
    const socket = connect({ host, port }, () => socket.write(bytes));
    return socket
      .on('error', () => undefined)
      .once('data', () => {
        responses += 1;
      });
  });
  const until = performance.now() + WAIT_MILLISECONDS;
  while (responses < ANSWERED && performance.now() < until) await sleep(20);
  for (const socket of sockets) socket.destroy();
}
