/**
 * The store's connection to Redis, with deadlines, a limit on waiting commands, and immediate refusals while it is
 * down.
 */
import { Cluster, type Redis } from 'ioredis';
import { storeClosed, unavailable } from '../unavailable.ts';
import { type ClientParts, createClient } from './clients.ts';
import { withDeadline } from './deadlines.ts';
import { causeCode, isClusterError, toStoreError } from './faults.ts';
import { defineScripts } from './scripts.ts';
import { cutStuckHandshakes, watchSilence } from './silence.ts';
import { isRefusedSelect, startFault } from './start-fault.ts';
import { createTurn } from './turn.ts';

type RedisClient = Redis | Cluster;

export interface RedisConnection {
  /** The client itself, for commands to one node, or without a deadline. */
  client: RedisClient;
  /** Sends one command and returns the response. Rejects as the store's methods do. */
  run<T>(command: (client: RedisClient) => Promise<T>): Promise<T>;
  /** Reads a value. On a single server, all reads of one turn of the event loop are one command. */
  get(key: string): Promise<string | null>;
  /** Refuses further commands, and resolves when the running ones are settled. */
  close(): Promise<void>;
}

export interface ConnectionParts extends ClientParts {
  /** Called when a connection to a server is open again, before a command is sent on it. */
  onReconnect?: (() => void) | undefined;
}

/** A start waits this long for a connection, or as long as the deadlines of the first responses if these are longer. */
const MIN_OPEN_MS = 5_000;
const FIRST_RESPONSES = 4;
/** If this many commands wait, the next one is refused at once. Each read counts as one command. */
const MAX_UNDER_WAY = 8_192;

/** Opens the connection. Rejects with the error of `startFault` if there is none in time. */
export async function openRedisConnection(parts: ConnectionParts): Promise<RedisConnection> {
  const { deadlineMilliseconds } = parts;
  const client = createClient(parts);
  defineScripts(client);
  const fault = watchFaults(client);
  const isOpen =
    client instanceof Cluster ? watchCluster(client, deadlineMilliseconds) : watchServer(client, deadlineMilliseconds);
  await untilReady(client, parts);
  if (parts.onReconnect) watchReconnects(client, parts.onReconnect);
  const silence = watchSilence(
    () => (client instanceof Cluster ? client.nodes('all') : [client]),
    deadlineMilliseconds,
  );
  const readOne = (key: string) => runWithDeadline((server) => server.get(key));
  // Buffers, because the strings of an array that ioredis decodes stay in memory long after the request.
  const readAll = (keys: string[]) => runWithDeadline((server) => server.mgetBuffer(keys), keys.length);
  const turn = client instanceof Cluster ? undefined : createTurn(client, readOne, readAll);
  let underWay = 0;
  let whenIdle = () => {};
  let isClosed = false;

  async function runWithDeadline<T>(command: (client: RedisClient) => Promise<T>, count = 1): Promise<T> {
    turn?.begin();
    underWay += count;
    try {
      return await withDeadline(command(client), deadlineMilliseconds, silence.check);
    } catch (error) {
      throw toStoreError(error);
    } finally {
      underWay -= count;
      if (underWay === 0) whenIdle();
    }
  }

  function unlessRefused<T>(work: () => Promise<T>): Promise<T> {
    if (isClosed) return Promise.reject(storeClosed());
    if (!isOpen()) return Promise.reject(notConnected(fault()));
    if (underWay + (turn?.waiting() ?? 0) >= MAX_UNDER_WAY)
      return Promise.reject(unavailable('Too many commands wait for Redis'));
    return work();
  }

  return {
    client,
    run: (command) => unlessRefused(() => runWithDeadline(command)),
    get: (key) => unlessRefused(() => (turn ? turn.get(key) : readOne(key))),
    async close() {
      if (isClosed) return;
      isClosed = true;
      silence.stop();
      turn?.end();
      await new Promise<void>((resolve) => {
        whenIdle = resolve;
        if (underWay === 0) resolve();
      });
      // A client without a connection never emits `end`.
      await withDeadline(disconnect(client), deadlineMilliseconds).catch(() => undefined);
    },
  };
}

function notConnected(cause: unknown) {
  const code = causeCode(cause);
  const slowNote = code === 'ETIMEDOUT' ? '. It responds too slowly or not at all' : '';
  const reason = code === undefined ? isClusterError(cause) && 'no node of the cluster responds' : `${code}${slowNote}`;
  return unavailable(`There is no connection to Redis${reason ? `: ${reason}` : ''}`, { cause });
}

/**
 * Returns a function that returns the error of the last attempt to connect. Without a listener for `error`, ioredis
 * would print to the console.
 */
function watchFaults(client: RedisClient): () => unknown {
  let fault: unknown;
  const saveFault = (error: unknown) => {
    // After the errors of its nodes, a cluster client emits a general error, which often has no code.
    if (causeCode(fault) === undefined || causeCode(error) !== undefined) fault = error;
  };
  client.on('error', saveFault);
  client.on('node error', saveFault);
  client.on('ready', () => {
    fault = undefined;
  });
  return () => fault;
}

/** Returns a function that returns whether the connection is open. */
function watchServer(client: Redis, deadlineMilliseconds: number): () => boolean {
  fenceConnections(client);
  cutStuckHandshakes(client, deadlineMilliseconds);
  let isReady = false;
  // Registered after the listener of `fenceConnections`, so that its command is the first.
  client.on('ready', () => {
    isReady = true;
  });
  client.on('close', () => {
    isReady = false;
  });
  return () => isReady;
}

/**
 * Connects to all nodes at once: ioredis connects to a node at its first command, and refuses all others until then.
 */
function watchCluster(client: Cluster, deadlineMilliseconds: number): () => boolean {
  const connectAll = () => {
    if (client.status !== 'ready') return;
    for (const node of client.nodes('all')) if (node.status === 'wait') node.connect().catch(() => undefined);
  };
  client.on('+node', (node: Redis) => {
    fenceConnections(node);
    cutStuckHandshakes(node, deadlineMilliseconds);
    connectAll();
  });
  client.on('ready', connectAll);
  return () => client.status === 'ready';
}

/** Watches every server of a cluster, because any one of them may have lost its data. */
function watchReconnects(client: RedisClient, onReconnect: () => void): void {
  client.on('ready', onReconnect);
  if (!(client instanceof Cluster)) return;
  for (const node of client.nodes('all')) node.on('ready', onReconnect);
  client.on('+node', (node: Redis) => node.on('ready', onReconnect));
}

/** Waits until the client is connected. Ends it and rejects with the error of `startFault` if that takes too long. */
export async function untilReady(client: RedisClient, parts: Omit<ClientParts, 'random'>): Promise<void> {
  let fault: unknown;
  const saveFault = (error: unknown) => {
    fault = error;
  };
  client.on('error', saveFault).on('node error', saveFault);
  const ready = async () => {
    if (client.status !== 'ready') await new Promise((resolve) => client.once('ready', resolve));
    if (client instanceof Cluster) await untilNodesReady(client);
  };
  try {
    await withDeadline(ready(), Math.max(MIN_OPEN_MS, FIRST_RESPONSES * parts.deadlineMilliseconds));
    // ioredis only emits an error if SELECT fails, and would continue in database 0.
    if (isRefusedSelect(fault)) throw fault;
  } catch {
    client.disconnect();
    throw await startFault(parts, fault);
  } finally {
    client.off('error', saveFault).off('node error', saveFault);
  }
}

async function untilNodesReady(client: Cluster): Promise<void> {
  while (client.status === 'ready' && client.nodes('master').some((node) => node.status !== 'ready')) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function disconnect(client: RedisClient): Promise<void> {
  if (client.status === 'end') return;
  const ended = new Promise((resolve) => client.once('end', resolve));
  client.disconnect();
  await ended;
}

/**
 * Makes the server end the former connection before anything is sent on the new one. A write that has timed out may
 * still be in a socket, and would overwrite later writes; a server that has ended the connection drops it. The address
 * must match, too, because another server (or the same server after a restart) reuses ids. If the server does not allow
 * CLIENT, such a write is executed late.
 */
function fenceConnections(client: Redis): void {
  let formerConnection: { id: string; address: string } | undefined;
  client.on('ready', () => {
    if (formerConnection)
      client.call('CLIENT', 'KILL', 'ID', formerConnection.id, 'ADDR', formerConnection.address).catch(ignore);
    formerConnection = undefined;
    client.call('CLIENT', 'INFO').then((info) => {
      const [, id, address] = /^id=(\d+) addr=(\S+)/.exec(String(info)) ?? [];
      if (id && address) formerConnection = { id, address };
    }, ignore);
  });
}

function ignore(): void {}
