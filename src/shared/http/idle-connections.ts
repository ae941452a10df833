/** Caps the connections of one address that carry no request, so that no client holds all that a listener accepts (R89). */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { callerNetwork, isInNetworks, normalAddress } from '../config/networks.ts';

/** One IPv4 address, or one IPv6 /64. */
interface Network {
  connections: number;
  /** Since when (`performance.now`); the one that has been idle longest first. */
  idle: Map<Socket, number>;
  timer?: NodeJS.Timeout | undefined;
}

interface Connection {
  network: Network;
  /** Requests under way: several if the client sends the next one before the response (pipelining). */
  requests: number;
}

/** A new connection has its request on the way, and one in steady use is idle between requests: neither is closed. */
const MIN_IDLE_MS = 1_000;

/**
 * Past the cap, the connections that have been idle longest are closed. One that has not sent a whole head yet is idle, too.
 * @param cap `max`: for one network; `trustedProxies` have no cap, since they bring the requests of others
 */
export function capIdleConnections(server: Server, cap: { max: number; trustedProxies: readonly string[] }): void {
  const networks = new Map<string, Network>();
  const connections = new WeakMap<Socket, Connection>();

  const closeIdle = (network: Network) => {
    network.timer = undefined;
    const before = performance.now() - MIN_IDLE_MS;
    for (const [socket, since] of network.idle) {
      if (network.idle.size <= cap.max) return;
      if (since > before) return closeLater(network);
      network.idle.delete(socket);
      socket.destroy();
    }
  };
  const closeLater = (network: Network) => {
    network.timer ??= setTimeout(closeIdle, MIN_IDLE_MS, network).unref();
  };
  const becomeIdle = (socket: Socket, network: Network) => {
    network.idle.set(socket, performance.now());
    if (network.idle.size > cap.max) closeLater(network);
  };

  server.on('connection', (socket: Socket) => {
    const address = normalAddress(socket.remoteAddress ?? '');
    if (address === undefined || isInNetworks(address, cap.trustedProxies)) return;
    const name = callerNetwork(address);
    const network = networks.get(name) ?? { connections: 0, idle: new Map<Socket, number>() };
    networks.set(name, network);
    network.connections += 1;
    connections.set(socket, { network, requests: 0 });
    socket.once('close', () => {
      network.idle.delete(socket);
      network.connections -= 1;
      if (network.connections === 0) networks.delete(name);
    });
    becomeIdle(socket, network);
  });

  server.on('request', ({ socket }, res) => {
    const connection = connections.get(socket);
    if (!connection) return;
    connection.requests += 1;
    connection.network.idle.delete(socket);
    res.once('close', () => {
      connection.requests -= 1;
      if (connection.requests === 0 && !socket.destroyed) becomeIdle(socket, connection.network);
    });
  });
}
