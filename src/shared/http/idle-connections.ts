/** Caps the idle connections of one address, so that no client occupies all connections of a listener (R89). */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { callerNetwork, isInNetworks, normalAddress } from '../config/networks.ts';

/** The connections of one IPv4 address, or of one IPv6 /64. */
interface Network {
  connections: number;
  /** When each connection became idle (`performance.now`), the longest idle first. */
  idle: Map<Socket, number>;
  timer?: NodeJS.Timeout | undefined;
}

interface Connection {
  network: Network;
  /** Requests under way: several if the client sends the next one before the response (pipelining). */
  requests: number;
}

/**
 * A connection that has been idle for less time is not closed: it may be new, with its request on its way, or busy, and
 * idle only between requests.
 */
const MIN_IDLE_MS = 1_000;

/**
 * Closes the longest idle connections beyond the cap. A connection without a complete request head counts as idle.
 * @param cap `max`: idle connections per network. `trustedProxies`: have no cap, because they forward the requests of
 *   many clients
 */
export function capIdleConnections(server: Server, cap: { max: number; trustedProxies: readonly string[] }): void {
  const networks = new Map<string, Network>();
  const connections = new WeakMap<Socket, Connection>();

  const closeIdle = (network: Network) => {
    network.timer = undefined;
    const latest = performance.now() - MIN_IDLE_MS;
    for (const [socket, since] of network.idle) {
      if (network.idle.size <= cap.max) return;
      if (since > latest) return scheduleClosing(network);
      network.idle.delete(socket);
      socket.destroy();
    }
  };
  const scheduleClosing = (network: Network) => {
    network.timer ??= setTimeout(closeIdle, MIN_IDLE_MS, network).unref();
  };
  const becomeIdle = (socket: Socket, network: Network) => {
    network.idle.set(socket, performance.now());
    if (network.idle.size > cap.max) scheduleClosing(network);
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
