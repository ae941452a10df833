/** The peers from npm: checks whether they are installed, installs them, and starts their processes. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CLIENT_SECRET } from '../support/gatehouse.ts';
import { IN_MEMORY, type RedisServer, startRedis } from '../support/redis-server.ts';
import { type Measured, startProcess } from './process.ts';
import { type Address, CLIENT_ID, SCOPES } from './site.ts';

const here = import.meta.dirname;
export const INSTALL_COMMAND = 'npm ci --prefix test/bench';

export function peersAreInstalled(): boolean {
  const { dependencies } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8')) as { dependencies: object };
  return Object.keys(dependencies).every((name) => existsSync(join(here, 'node_modules', name, 'package.json')));
}

export function installPeers(): void {
  execFileSync('npm', ['ci', '--prefix', here], { stdio: 'inherit' });
}

export const PEERS = {
  'express-openid-connect + http-proxy-middleware, Redis': 'express-openid-connect',
  'express-session + connect-redis + ioredis + undici': 'express-session',
} as const;
export type PeerName = keyof typeof PEERS;
export const [LIBRARY_PEER, PLAIN_PEER] = Object.keys(PEERS) as [PeerName, PeerName];

export interface Peer {
  name: string;
  url: string;
  process: Measured;
  redis: RedisServer | undefined;
  stop(): Promise<void>;
}

/** Starts a peer with its own Redis without persistence, as is usual for sessions. */
export async function startPeer(
  name: PeerName,
  parts: { address: Address; issuer: string; platformUrl: string },
): Promise<Peer> {
  const { url, port } = parts.address;
  const redis = await startRedis(IN_MEMORY);
  const process = await startProcess(`test/bench/peers/${PEERS[name]}.ts`, {
    ready: 'ready',
    env: {
      PORT: String(port),
      PUBLIC_URL: url,
      ISSUER: parts.issuer,
      CLIENT_ID,
      CLIENT_SECRET,
      SCOPE: SCOPES.join(' '),
      UPSTREAM_URL: parts.platformUrl,
      ACCESS_TOKEN: 'plain',
      REDIS_URL: redis.url,
      SESSION_SECRET: randomBytes(48).toString('base64'),
      NODE_ENV: 'production',
    },
  });
  const stop = async () => {
    await process.stop();
    await redis.dispose();
  };
  return { name, url, process, redis, stop };
}
