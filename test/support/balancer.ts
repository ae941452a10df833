/** A TCP load balancer for several processes of one deployment. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface Balancer {
  /** Sets the ports for new connections. Open connections stay. */
  setPorts(ports: readonly number[]): void;
  close(): Promise<void>;
}

/** @param choose returns a whole number of at least 0 and below its argument: the index of the first port to try */
export async function startBalancer(port: number, choose: (below: number) => number): Promise<Balancer> {
  let ports: readonly number[] = [];
  const sockets = new Set<Socket>();
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  };

  /** Forwards the client to the first of these ports that accepts the connection. */
  const forward = (client: Socket, candidates: readonly number[]): void => {
    const [next, ...rest] = candidates;
    if (next === undefined) return void client.destroy();
    const server = connect(next, '127.0.0.1');
    track(server);
    let hasConnected = false;
    server.once('error', () => (hasConnected ? client.destroy() : forward(client, rest)));
    server.once('connect', () => {
      hasConnected = true;
      client.pipe(server).pipe(client);
      client.once('close', () => server.destroy());
      server.once('close', () => client.destroy());
    });
  };

  const server = createServer({ pauseOnConnect: true }, (client) => {
    track(client);
    client.on('error', () => client.destroy());
    const first = ports.length === 0 ? 0 : choose(ports.length);
    forward(client, [...ports.slice(first), ...ports.slice(0, first)]);
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
