/** A platform that sends the exact bytes of a test, and reports its open connections. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';

export interface ScriptedPlatform {
  url: string;
  /** The heads of the received requests. */
  requests: string[];
  /** The number of open connections. */
  countConnections(): number;
  /** Lets this script respond to every request from now on. */
  respondWith(script: (socket: Socket) => void): void;
  close(): Promise<void>;
}

export async function startScriptedPlatform(): Promise<ScriptedPlatform> {
  const sockets = new Set<Socket>();
  const requests: string[] = [];
  let script: (socket: Socket) => void = (socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}');
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket)).on('error', () => undefined);
    socket.on('data', (chunk) => {
      requests.push(chunk.toString('latin1'));
      script(socket);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    countConnections: () => sockets.size,
    respondWith(newScript) {
      script = newScript;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Writes a piece of a response at intervals until the connection closes. */
export function drip(socket: Socket, piece: string, milliseconds = 20): void {
  const timer = setInterval(() => socket.write(piece), milliseconds);
  socket.once('close', () => clearInterval(timer));
}
