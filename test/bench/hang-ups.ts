/** Benchmark of clients that disconnect in the middle of a response, and of the clients after them. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { missingRedis } from '../support/redis-server.ts';
import { type PreparedRequest, prepareRequest } from './connection.ts';
import { type Effort, print } from './effort.ts';
import { type Finding, formatFindings } from './findings.ts';
import { LIBRARY_PEER, peersAreInstalled, startPeer } from './peers.ts';
import {
  type Platform,
  reserveAddress,
  signIn,
  startGatehouse,
  startIdentityProvider,
  startPlatform,
  withAll,
} from './site.ts';

const CLIENTS = 2_000;
const CLIENTS_AT_ONCE = 500;
/** Number of clients that get part of a response before they leave. Others wait for a connection to the platform. */
const MIN_RESPONSES = 32;
const WAIT_MILLISECONDS = 3_000;
const LONGEST_MILLISECONDS = 5_000;

export function benchHangUps(_effort: Effort): Promise<Finding[]> {
  return withAll(async (keep) => {
    const platform = keep(await startPlatform());
    const [addressOfGatehouse, addressOfPeer] = await Promise.all([reserveAddress(), reserveAddress()]);
    const { issuer } = keep(await startIdentityProvider([addressOfGatehouse, addressOfPeer]));
    const parts = { issuer, platformUrl: platform.url };
    const site = keep(await startGatehouse({ ...parts, address: addressOfGatehouse, storage: 'embedded' }));
    const findings = await hangUp('Gatehouse', site.url, platform, true);
    if (missingRedis === undefined && peersAreInstalled()) {
      const peer = keep(await startPeer(LIBRARY_PEER, { ...parts, address: addressOfPeer }));
      // Idle connections of Gatehouse must not count for the peer.
      await site.stop();
      findings.push(...(await hangUp(LIBRARY_PEER, peer.url, platform, false)));
    }
    print(formatFindings(`${CLIENTS.toLocaleString('en-GB')} clients that disconnect during a response`, findings));
    return findings;
  });
}

async function hangUp(name: string, url: string, platform: Platform, hasTargets: boolean): Promise<Finding[]> {
  const { cookie } = await signIn(url);
  const request = prepareRequest(`${url}/threads/current`, { headers: { accept: 'application/json', cookie } });
  await platform.control('drip');
  for (let round = 0; round < CLIENTS / CLIENTS_AT_ONCE; round++) await leaveInTheMiddle(request);
  await platform.control('whole');
  const startedAt = performance.now();
  const signal = AbortSignal.timeout(LONGEST_MILLISECONDS);
  const status = await readStatus(`${url}/threads/current`, {
    headers: { accept: 'application/json', cookie },
    signal,
  });
  const milliseconds = performance.now() - startedAt;
  const outcome = status === 200 ? 'the next response' : 'the next response, given up after';
  await sleep(1_000);
  const open = await platform.control('count');
  return [
    {
      what: `${name}: ${outcome}`,
      measured: milliseconds,
      unit: 'ms',
      ...(hasTargets && { target: { most: 1_000 } }),
    },
    // The connection of the last request stays open for the next.
    {
      what: `${name}: connections to the platform left`,
      measured: open,
      unit: '',
      ...(hasTargets && { target: { most: 1 } }),
    },
  ];
}

/** Reads the whole response. @returns its status; 0 if there was none in time */
async function readStatus(url: string, options: RequestInit): Promise<number> {
  try {
    const response = await fetch(url, options);
    await response.arrayBuffer();
    return response.status;
  } catch {
    return 0;
  }
}

/** Closes the connections of many clients after some of them have received a part of the response. */
async function leaveInTheMiddle({ host, port, bytes }: PreparedRequest): Promise<void> {
  let responses = 0;
  const sockets = Array.from({ length: CLIENTS_AT_ONCE }, () => {
    const socket = connect({ host, port }, () => socket.write(bytes));
    return socket
      .on('error', () => undefined)
      .once('data', () => {
        responses += 1;
      });
  });
  const endsAt = performance.now() + WAIT_MILLISECONDS;
  while (responses < MIN_RESPONSES && performance.now() < endsAt) await sleep(20);
  for (const socket of sockets) socket.destroy();
}
