/** Publish and subscribe over Redis, with a separate connection that subscribes again after it was lost. */
import { Cluster, type Redis } from 'ioredis';
import { createListeners } from '../listeners.ts';
import type { Store } from '../store.ts';
import { storeClosed, unavailable } from '../unavailable.ts';
import { createClient, createNodeClient } from './clients.ts';
import { type ConnectionParts, type RedisConnection, untilReady } from './connection.ts';
import { withDeadline } from './deadlines.ts';
import { toStoreError } from './faults.ts';
import type { RedisNames } from './names.ts';
import { runScript } from './scripts.ts';
import { cutStuckHandshakes, watchSilence } from './silence.ts';

interface RedisMessagesParts extends ConnectionParts {
  connection: RedisConnection;
  names: RedisNames;
}

const NODE_RETRY_DELAY_MS = 100;

/** Opens the connection for messages. Rejects with the error of `startFault` if it cannot connect in time. */
export async function openRedisMessages(
  parts: RedisMessagesParts,
): Promise<Pick<Store, 'publish' | 'subscribe'> & { close(): void }> {
  const { connection, names, deadlineMilliseconds } = parts;
  const listeners = createListeners();
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;
  let client = connect();
  const silence = watchSilence(() => [client], deadlineMilliseconds);
  const close = () => {
    isClosed = true;
    silence.stop();
    clearTimeout(timer);
    client.disconnect();
    listeners.clear();
  };
  await untilReady(client, parts).catch((error: unknown) => {
    close();
    throw error;
  });

  function connect(): Redis {
    const next = createListeningClient(parts);
    next.on('error', () => {});
    cutStuckHandshakes(next, deadlineMilliseconds);
    next.on('ready', () => {
      const channels = listeners.channels();
      if (channels.length > 0) next.subscribe(...channels).catch(() => undefined);
    });
    next.on('message', listeners.deliver);
    // Only a cluster's node client ends: it does not reconnect. Choose a node again.
    next.on('end', () => {
      if (isClosed) return;
      timer = setTimeout(() => {
        client = connect();
      }, NODE_RETRY_DELAY_MS);
    });
    return next;
  }

  return {
    async publish(channel, message) {
      await connection.run((server) => runScript(server, 'gatehousePublish', [names.of(channel)], [message]));
    },
    async subscribe(channel, listener) {
      if (isClosed) throw storeClosed();
      if (client.status !== 'ready') throw unavailable('There is no connection to Redis to listen on');
      const redisChannel = names.of(channel);
      const remove = listeners.add(redisChannel, listener);
      try {
        // Repeated for each listener of a channel, because Redis may not have confirmed the first subscription yet.
        await withDeadline(client.subscribe(redisChannel), deadlineMilliseconds);
      } catch (error) {
        remove();
        throw toStoreError(error);
      }
      return async () => {
        // Not awaited, because a message without listeners is dropped anyway.
        if (remove()) client.unsubscribe(redisChannel).catch(() => undefined);
      };
    },
    close,
  };
}

/** Creates the client. On a cluster it connects to any node, because every node forwards all messages. */
function createListeningClient(parts: RedisMessagesParts): Redis {
  const { location, connection, random } = parts;
  if (!(connection.client instanceof Cluster)) return createClient(parts) as Redis;
  const nodes = connection.client.nodes('all').filter((node) => node.status === 'ready');
  const { host, port } = nodes[Math.floor(random() * nodes.length)]?.options ?? {};
  const [fallback] = location.addresses;
  return createNodeClient(parts, { host: host ?? fallback?.host ?? '', port: port ?? fallback?.port ?? 0 });
}
