/** Proxies to Redis that delay data, like a slow network. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface HoldingProxy {
  port: number;
  /** Holds all further data of clients on the present connections. New connections are not affected. */
  holdOpenConnections(): void;
  /** The number of open connections that are not held. */
  countUnheld(): number;
  /** Connects new connections to another server. Open connections are not affected. */
  redirect(port: number): void;
  /** Delivers the held data, even if the client has disconnected. */
  release(): void;
  close(): Promise<void>;
}

interface Link {
  server: Socket;
  /** Undefined if the connection is not held. */
  heldData: Buffer[] | undefined;
}

export async function startHoldingProxy(serverPort: number): Promise<HoldingProxy> {
  const links = new Set<Link>();
  let target = serverPort;
  const proxy = createServer({ allowHalfOpen: true }, (client) => {
    const link: Link = { server: connect(target, '127.0.0.1'), heldData: undefined };
    links.add(link);
    const { server } = link;
    client.on('data', (bytes) => void (link.heldData ? link.heldData.push(bytes as Buffer) : server.write(bytes)));
    client.on('close', () => link.heldData ?? server.destroy());
    client.on('end', () => client.end());
    server.on('data', (bytes) => client.writable && client.write(bytes));
    server.on('close', () => {
      links.delete(link);
      client.destroy();
    });
    for (const socket of [client, server]) socket.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const address = proxy.address();
  if (address === null || typeof address === 'string') throw new Error('The proxy has no port.');

  return {
    port: address.port,
    holdOpenConnections() {
      for (const link of links) link.heldData ??= [];
    },
    countUnheld: () => [...links].filter(({ heldData }) => !heldData).length,
    redirect(port) {
      target = port;
    },
    release() {
      for (const link of links) {
        for (const bytes of link.heldData ?? []) link.server.write(bytes);
        link.heldData = undefined;
      }
    },
    async close() {
      for (const { server } of links) server.destroy();
      proxy.close();
    },
  };
}

export interface DelayingProxy {
  port: number;
  /** The delay of each packet of the server. */
  delayMilliseconds: number;
  /** Ends the open connections, like a network fault. */
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
  if (address === null || typeof address === 'string') throw new Error('The proxy has no port.');
  proxy.port = address.port;
  return proxy;
}
