/** What stands before several processes of one deployment: takes connections at one address and hands each to a process that takes it. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface Balancer {
  /** What new connections may be handed to; those that are open stay. */
  setPorts(ports: readonly number[]): void;
  close(): Promise<void>;
}

/** @param choose a whole number from 0 up to below the one given: whom a connection is handed to first */
export async function startBalancer(port: number, choose: (below: number) => number): Promise<Balancer> {
  let ports: readonly number[] = [];
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  };

  /** The next one is tried where nobody listens, as any balancer would do. */
  const handOn = (client: Socket, left: readonly number[]): void => {
    const [next, ...rest] = left;
    if (next === undefined) return void client.destroy();
    const server = connect(next, '127.0.0.1');
    keep(server);
    let hasConnected = false;
    server.once('error', () => (hasConnected ? client.destroy() : handOn(client, rest)));
    server.once('connect', () => {
      hasConnected = true;
      client.pipe(server).pipe(client);
      client.once('close', () => server.destroy());
      server.once('close', () => client.destroy());
    });
  };

  const server = createServer({ pauseOnConnect: true }, (client) => {
    keep(client);
    client.on('error', () => client.destroy());
    const first = ports.length === 0 ? 0 : choose(ports.length);
    handOn(client, [...ports.slice(first), ...ports.slice(0, first)]);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    setPorts(next) {
      ports = next;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
