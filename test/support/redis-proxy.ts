/** Ways to Redis that hold back what is on them, as a network does that delivers late. */

import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface HoldingProxy {
  port: number;
  /** What clients send on the connections that are open now waits here; new connections are not touched. */
  holdOpenConnections(): void;
  /** How many open connections are not held. */
  free(): number;
  /** Connects to another server from now on; open connections stay where they are. */
  redirect(port: number): void;
  /** Delivers what was held, even where the client has gone meanwhile. */
  release(): void;
  close(): Promise<void>;
}

interface Way {
  server: Socket;
  held: Buffer[] | undefined;
}

export async function startHoldingProxy(serverPort: number): Promise<HoldingProxy> {
  const ways = new Set<Way>();
  let target = serverPort;
  const proxy = createServer({ allowHalfOpen: true }, (client) => {
    const way: Way = { server: connect(target, '127.0.0.1'), held: undefined };
    ways.add(way);
    const { server } = way;
    client.on('data', (bytes) => void (way.held ? way.held.push(bytes as Buffer) : server.write(bytes)));
    client.on('close', () => way.held ?? server.destroy());
    client.on('end', () => client.end());
    server.on('data', (bytes) => client.writable && client.write(bytes));
    server.on('close', () => {
      ways.delete(way);
      client.destroy();
    });
    for (const socket of [client, server]) socket.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const address = proxy.address();
  if (address === null || typeof address === 'string') throw new Error('The system gave no port.');

  return {
    port: address.port,
    holdOpenConnections() {
      for (const way of ways) way.held ??= [];
    },
    free: () => [...ways].filter(({ held }) => !held).length,
    redirect(port) {
      target = port;
    },
    release() {
      for (const way of ways) {
        for (const bytes of way.held ?? []) way.server.write(bytes);
        way.held = undefined;
      }
    },
    async close() {
      for (const { server } of ways) server.destroy();
      proxy.close();
    },
  };
}

export interface DelayingProxy {
  port: number;
  /** How long each packet of the server is held back. */
  delayMilliseconds: number;
  /** Ends the open connections, as a network does. */
  cut(): void;
  close(): Promise<void>;
}

export async function startDelayingProxy(serverPort: number, delayMilliseconds: number): Promise<DelayingProxy> {
  const open = new Set<Socket>();
  const proxy: DelayingProxy = {
    port: 0,
    delayMilliseconds,
    cut() {
      for (const socket of open) socket.destroy();
    },
    async close() {
      proxy.cut();
      listener.close();
    },
  };
  const listener = createServer((client) => {
    const server = connect(serverPort, '127.0.0.1');
    open.add(client);
    client.on('data', (bytes) => void server.write(bytes));
    server.on('data', (bytes) => setTimeout(() => client.writable && client.write(bytes), proxy.delayMilliseconds));
    client.on('close', () => {
      open.delete(client);
      server.destroy();
    });
    server.on('close', () => client.destroy());
    for (const socket of [client, server]) socket.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  if (address === null || typeof address === 'string') throw new Error('The system gave no port.');
  proxy.port = address.port;
  return proxy;
}
