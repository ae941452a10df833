/** Starts Redis servers, sentinels and clusters for tests, on free ports and in temporary folders. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { killOnExit } from './child-processes.ts';
import { freePort } from './ports.ts';
import { until } from './until.ts';

export interface RedisServer {
  port: number;
  url: string;
  directory: string;
  /** Sends a command with redis-cli and returns its output. */
  sendCommand(...command: string[]): string;
  signal(name: NodeJS.Signals): void;
  /** Ends the process at once, like a crash. */
  kill(): Promise<void>;
  /** Starts the server again on the same port and folder, with additional arguments. */
  start(args?: readonly string[]): Promise<void>;
  /** Ends the server and removes its folder. */
  dispose(): Promise<void>;
}

export const missingRedis = spawnSync('redis-server', ['--version']).status === 0 ? undefined : 'redis-server';

/** Keeps all acknowledged writes after a crash. */
export const APPEND_ONLY = ['--appendonly', 'yes', '--appendfsync', 'always'];
/** The default of Redis with an append-only file: a crash loses at most one second of writes. */
export const APPEND_ONLY_EACH_SECOND = ['--appendonly', 'yes'];
/** A restart loses all data. */
export const IN_MEMORY = ['--appendonly', 'no'];

const COMMON = [
  '--bind',
  '127.0.0.1',
  '--save',
  '',
  '--maxmemory-policy',
  'noeviction',
  '--repl-diskless-sync-delay',
  '0',
];

export async function startRedis(args: readonly string[] = APPEND_ONLY): Promise<RedisServer> {
  return startServer((port) => [...COMMON, '--port', String(port), ...args]);
}

/**
 * A sentinel with a quorum of two, which treats a master that is silent for 700 ms as dead. It checks the result of a
 * failover once a second; with a shorter `failover-timeout`, another sentinel could begin a second failover during the
 * first.
 */
export async function startSentinel(name: string, masterPort: number): Promise<RedisServer> {
  const settings = (port: number) => `port ${port}
bind 127.0.0.1
sentinel monitor ${name} 127.0.0.1 ${masterPort} 2
sentinel down-after-milliseconds ${name} 700
sentinel failover-timeout ${name} 2000
sentinel parallel-syncs ${name} 1
`;
  return startServer((port, directory) => {
    const file = join(directory, 'sentinel.conf');
    writeFileSync(file, settings(port));
    return [file, '--sentinel'];
  });
}

export interface SentinelSet {
  name: string;
  /** The master first, then two replicas. */
  servers: RedisServer[];
  sentinels: RedisServer[];
  /** For `REDIS_SENTINELS`. */
  addresses: string;
  dispose(): Promise<void>;
}

/** A master with two replicas, watched by three sentinels that know all servers. */
export async function startSentinelSet(name = 'gatehouse'): Promise<SentinelSet> {
  const master = await startRedis();
  const follow = ['--replicaof', '127.0.0.1', String(master.port)];
  const servers = [master, ...(await Promise.all([startRedis(follow), startRedis(follow)]))];
  await until(() => master.sendCommand('INFO', 'replication').match(/state=online/g)?.length === 2);
  const sentinels = await Promise.all([1, 2, 3].map(() => startSentinel(name, master.port)));
  const allReport = (pattern: RegExp) =>
    sentinels.every((sentinel) => pattern.test(sentinel.sendCommand('SENTINEL', 'MASTER', name)));
  await until(() => allReport(/num-other-sentinels\n2\n/));
  await until(() => allReport(/num-slaves\n2\n/));
  return {
    name,
    servers,
    sentinels,
    addresses: sentinels.map(({ port }) => `127.0.0.1:${port}`).join(','),
    dispose: async () => void (await Promise.all([...sentinels, ...servers].map((server) => server.dispose()))),
  };
}

/** A cluster of three masters; with six servers, each master has a replica. */
export async function startCluster(servers: 3 | 6): Promise<RedisServer[]> {
  const nodes = await Promise.all(
    Array.from({ length: servers }, async () => {
      const busPort = await freePort();
      const cluster = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000', '--cluster-port', String(busPort)];
      return startRedis([...APPEND_ONLY, ...cluster, '--cluster-replica-validity-factor', '0']);
    }),
  );
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
  const replicas = ['--cluster-replicas', servers === 6 ? '1' : '0', '--cluster-yes'];
  execFileSync('redis-cli', ['--cluster', 'create', ...addresses, ...replicas], { stdio: 'pipe' });
  await until(() => nodes.every((node) => node.sendCommand('CLUSTER', 'INFO').includes('cluster_state:ok')));
  await until(() => nodes.every((node) => !isUnconnectedReplica(node)));
  return nodes;
}

/** Resolves once the replicas of this cluster have all writes of its masters. */
export async function untilReplicated(nodes: readonly RedisServer[]): Promise<void> {
  const offsetsOf = (role: string) =>
    nodes
      .map((node) => node.sendCommand('INFO', 'replication'))
      .filter((info) => info.includes(`role:${role}`))
      .map((info) => Number(/master_repl_offset:(\d+)/.exec(info)?.[1]))
      .toSorted((a, b) => a - b);
  await until(() => isDeepStrictEqual(offsetsOf('master'), offsetsOf('slave')));
}

function isUnconnectedReplica(node: RedisServer): boolean {
  const info = node.sendCommand('INFO', 'replication');
  return info.includes('role:slave') && !info.includes('master_link_status:up');
}

async function startServer(argumentsOf: (port: number, directory: string) => string[]): Promise<RedisServer> {
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-redis-'));
  const baseArguments = argumentsOf(port, directory);
  let child: ChildProcess | undefined;
  const sendCommand = (...command: string[]) =>
    spawnSync('redis-cli', ['-p', String(port), ...command], { encoding: 'utf8', timeout: 5_000 }).stdout;

  const server: RedisServer = {
    port,
    url: `redis://127.0.0.1:${port}`,
    directory,
    sendCommand,
    signal: (name) => void child?.kill(name),
    async kill() {
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
    async start(args = []) {
      child = killOnExit(spawn('redis-server', [...baseArguments, ...args], { cwd: directory, stdio: 'ignore' }));
      await until(() => sendCommand('PING').startsWith('PONG'));
    },
    async dispose() {
      await server.kill();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  await server.start();
  return server;
}
