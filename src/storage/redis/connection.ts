/** A connection to Redis as the store uses it: bounded in time and number, and refusing at once while there is none. */

import { Cluster, type Redis } from 'ioredis';
import type { AppError } from '../../errors.ts';
import { fenceConnections } from './barrier.ts';
import { createClient, type RandomNumber } from './clients.ts';
import { createDeadlines } from './deadlines.ts';
import { storeClosed, toStoreError, unavailable } from './faults.ts';
import { defineScripts } from './scripts.ts';
import { cutStuckHandshakes, watchSilence } from './silence.ts';
import { startFault } from './start-fault.ts';
import type { RedisPlace } from './target.ts';
import { createTurn } from './turn.ts';

export type RedisClient = Redis | Cluster;

export interface RedisConnection {
  /** Sends one command, and answers what Redis answers; rejects as the store's methods do. */
  run<T>(command: (client: RedisClient) => Promise<T>): Promise<T>;
  /** A value. Those that are asked for in one turn of the event loop are one command, where the server takes it. */
  get(key: string): Promise<string | null>;
  /** For questions that the store's methods do not ask: of one node, or without a deadline. */
  client: RedisClient;
  /** Takes no more commands, and resolves when those under way are settled. */
  close(): Promise<void>;
}

export interface RedisConnectionParts {
  place: RedisPlace;
  deadlineMilliseconds: number;
  random: RandomNumber;
}

const OPEN_MILLISECONDS = 5_000;
/** Commands without an answer, given up or not. Past it the caller hears at once what it would hear at the deadline. */
const MAX_UNANSWERED = 8_192;

/** Rejects as `startFault` says when there is no connection within five seconds. */
export async function openRedisConnection(parts: RedisConnectionParts): Promise<RedisConnection> {
  const client = createClient(parts.place, parts.random);
  defineScripts(client);
  const isOpen = client instanceof Cluster ? watchCluster(client) : watchServer(client);
  await untilReady(client, parts.place);
  const deadlines = createDeadlines(parts.deadlineMilliseconds);
  const silence = watchSilence(() => (client instanceof Cluster ? client.nodes('all') : [client]), deadlines);
  const unanswered = new Map<Promise<unknown>, number>();
  const askOne = (key: string) => bounded((server) => server.get(key));
  // As bytes: of texts ioredis makes an array whose texts outlive it by far (docs/performance.md).
  const askAll = (keys: string[]) => bounded((server) => server.mgetBuffer(keys), keys.length);
  const turn = client instanceof Cluster ? undefined : createTurn(client, { askOne, askAll });
  let unansweredCount = 0;
  let closed = false;

  function send<T>(command: (client: RedisClient) => Promise<T>, count: number): Promise<T> {
    turn?.begin();
    const answer = command(client);
    unanswered.set(answer, count);
    unansweredCount += count;
    const settle = () => {
      unanswered.delete(answer);
      unansweredCount -= count;
    };
    answer.then(settle, settle);
    return answer;
  }

  async function bounded<T>(command: (client: RedisClient) => Promise<T>, count = 1): Promise<T> {
    try {
      return await deadlines.bound(send(command, count), silence.check);
    } catch (error) {
      throw toStoreError(error);
    }
  }

  function refusal(): AppError | undefined {
    if (closed) return storeClosed();
    if (!isOpen()) return unavailable('There is no connection to Redis');
    const isTooMuch = unansweredCount + (turn?.waiting() ?? 0) >= MAX_UNANSWERED;
    return isTooMuch ? unavailable('Too many commands wait for Redis') : undefined;
  }

  /** What is refused is not even asked. */
  function unlessRefused<T>(work: () => Promise<T>): Promise<T> {
    const refused = refusal();
    return refused ? Promise.reject(refused) : work();
  }

  return {
    client,
    run: (command) => unlessRefused(() => bounded(command)),
    get: (key) => unlessRefused(() => turn?.get(key) ?? askOne(key)),
    async close() {
      if (closed) return;
      closed = true;
      silence.stop();
      turn?.end();
      await deadlines.bound(Promise.allSettled(unanswered.keys())).catch(() => undefined);
      // A client that was not connected just now says nothing about its end.
      await deadlines.bound(disconnect(client)).catch(() => undefined);
    },
  };
}

/** Without listeners for `error` ioredis prints to the console; what failed is told to whoever asks for something. */
function watchServer(client: Redis): () => boolean {
  fenceConnections(client);
  cutStuckHandshakes(client);
  let open = false;
  // Registered behind the barrier's, so that nothing is sent before it.
  client.on('ready', () => {
    open = true;
  });
  client.on('close', () => {
    open = false;
  });
  client.on('error', () => {});
  return () => open;
}

/** ioredis connects to a node only when it is asked something, and refuses all further questions until it has. */
function watchCluster(client: Cluster): () => boolean {
  const connectAll = () => {
    if (client.status !== 'ready') return;
    for (const node of client.nodes('all')) if (node.status === 'wait') node.connect().catch(() => undefined);
  };
  client.on('+node', (node: Redis) => {
    fenceConnections(node);
    cutStuckHandshakes(node);
    connectAll();
  });
  client.on('ready', connectAll);
  client.on('error', () => {});
  return () => client.status === 'ready';
}

/** Rejects as `startFault` says when the client is not connected within five seconds, and ends it. */
export async function untilReady(client: RedisClient, place: RedisPlace): Promise<void> {
  let fault: unknown;
  const note = (error: unknown) => {
    fault = error;
  };
  client.on('error', note).on('node error', note);
  const ready = async () => {
    if (client.status !== 'ready') await new Promise((resolve) => client.once('ready', resolve));
    if (client instanceof Cluster) await untilNodesReady(client);
  };
  const deadlines = createDeadlines(OPEN_MILLISECONDS);
  try {
    await deadlines.bound(ready());
  } catch {
    client.disconnect();
    throw await startFault(place, fault);
  } finally {
    client.off('error', note).off('node error', note);
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
