/** Publish and subscribe over Redis: a connection that only listens, and that listens again wherever it broke. */

import { randomUUID } from 'node:crypto';
import { Cluster, type Redis } from 'ioredis';
import type { Store } from '../store.ts';
import { createClient, createNodeClient, type RandomNumber } from './clients.ts';
import { type RedisConnection, untilReady } from './connection.ts';
import { createDeadlines, type Deadlines } from './deadlines.ts';
import { storeClosed, toStoreError, unavailable } from './faults.ts';
import type { RedisNames } from './names.ts';
import { runScript } from './scripts.ts';
import { cutStuckHandshakes, watchSilence } from './silence.ts';
import type { RedisPlace } from './target.ts';

export interface RedisNoticesParts {
  place: RedisPlace;
  connection: RedisConnection;
  names: RedisNames;
  deadlineMilliseconds: number;
  random: RandomNumber;
}

export interface RedisNotices extends Pick<Store, 'publish' | 'subscribe'> {
  close(): void;
}

interface Entry {
  listener: (message: string) => void;
  /** From the moment of its own mark on: a cluster passes on late what was published before. */
  live: boolean;
}

interface Hearing {
  entries: Map<string, Set<Entry>>;
  /** What is to be done once the mark of that name is heard. */
  marks: Map<string, () => void>;
}

/** First character of what goes over a channel. */
const MESSAGE = '=';
const MARK = '!';

/** Rejects with `storage_unavailable` when it cannot listen within five seconds. */
export async function openRedisNotices(parts: RedisNoticesParts): Promise<RedisNotices> {
  const { connection, names } = parts;
  const hearing: Hearing = { entries: new Map(), marks: new Map() };
  const deadlines = createDeadlines(parts.deadlineMilliseconds);
  const ear = createEar(parts, hearing, deadlines);
  await untilReady(ear.client(), parts.place);
  let closed = false;

  const send = (channel: string, text: string) =>
    connection.run((client) => runScript(client, 'gatehousePublish', [channel], [text]));

  async function listen(channel: string, entry: Entry): Promise<void> {
    // Asked each time: whoever comes second must not be told before the first one's answer is there.
    await deadlines.bound(ear.client().subscribe(channel));
    const name = randomUUID();
    const heard = new Promise<void>((resolve) => {
      hearing.marks.set(name, () => {
        entry.live = true;
        resolve();
      });
    });
    try {
      await send(channel, MARK + name);
      await deadlines.bound(heard);
    } finally {
      hearing.marks.delete(name);
    }
  }

  return {
    async publish(channel, message) {
      await send(names.of(channel), MESSAGE + message);
    },
    async subscribe(name, listener) {
      if (closed) throw storeClosed();
      if (ear.client().status !== 'ready') throw unavailable('There is no connection to Redis to listen on');
      const channel = names.of(name);
      const entry = { listener, live: false };
      hearing.entries.set(channel, (hearing.entries.get(channel) ?? new Set()).add(entry));
      try {
        await listen(channel, entry);
      } catch (error) {
        remove(hearing, channel, entry);
        throw toStoreError(error);
      }
      return async () => {
        // Without listeners a message is dropped here, so it does not matter whether Redis hears of this.
        if (remove(hearing, channel, entry))
          ear
            .client()
            .unsubscribe(channel)
            .catch(() => undefined);
      };
    },
    close() {
      closed = true;
      ear.close();
      hearing.entries.clear();
    },
  };
}

/** True when the channel has no listener any more. */
function remove({ entries }: Hearing, channel: string, entry: Entry): boolean {
  const others = entries.get(channel);
  others?.delete(entry);
  return others?.size === 0 && entries.delete(channel);
}

interface Ear {
  client(): Redis;
  close(): void;
}

const NEXT_NODE_MILLISECONDS = 100;

/** On a cluster every node hears all messages; where the one that was listened to is gone, another takes its place. */
function createEar({ place, connection, random }: RedisNoticesParts, hearing: Hearing, deadlines: Deadlines): Ear {
  let closed = false;
  let timer: NodeJS.Timeout | undefined;
  let client = connect();
  const silence = watchSilence(() => [client], deadlines);

  function connect(): Redis {
    const next = createListeningClient(place, connection, random);
    next.on('error', () => {});
    cutStuckHandshakes(next);
    next.on('ready', () => {
      if (hearing.entries.size > 0) next.subscribe(...hearing.entries.keys()).catch(() => undefined);
    });
    next.on('message', (channel: string, text: string) => deliver(hearing, channel, text));
    next.on('end', () => {
      if (closed) return;
      timer = setTimeout(() => {
        client = connect();
      }, NEXT_NODE_MILLISECONDS);
    });
    return next;
  }

  return {
    client: () => client,
    close() {
      closed = true;
      silence.stop();
      clearTimeout(timer);
      client.disconnect();
    },
  };
}

function createListeningClient(place: RedisPlace, connection: RedisConnection, random: RandomNumber): Redis {
  if (!(connection.client instanceof Cluster)) return createClient(place, random) as Redis;
  const nodes = connection.client.nodes('all').filter((node) => node.status === 'ready');
  const { host, port } = nodes[Math.floor(random() * nodes.length)]?.options ?? {};
  const [known] = place.addresses;
  return createNodeClient(place, { host: host ?? known?.host ?? '', port: port ?? known?.port ?? 0 }, random);
}

function deliver({ entries, marks }: Hearing, channel: string, text: string): void {
  if (text.startsWith(MARK)) {
    marks.get(text.slice(MARK.length))?.();
    return;
  }
  for (const { listener, live } of entries.get(channel) ?? []) {
    try {
      if (live) listener(text.slice(MESSAGE.length));
    } catch (error) {
      // One listener's mistake must not keep the message from the others.
      process.emitWarning(error instanceof Error ? error : String(error));
    }
  }
}
