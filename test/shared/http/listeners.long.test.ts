/** A closing server responds on every connection that the system has already established. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { freePort } from '../../support/ports.ts';

/** The process is busy for most of the time, so that connections wait to be accepted when the signal arrives. */
const SERVER = `
import { createServer } from 'node:http';
import { closeServer } from ${JSON.stringify(new URL('../../../src/shared/http/listeners.ts', import.meta.url))};
const server = createServer((_req, res) => res.end('served'));
setInterval(() => {
  const since = performance.now();
  while (performance.now() - since < 4);
}, 5);
process.on('SIGTERM', () => void closeServer(server, { delaySeconds: 0, graceSeconds: 5 }).then(() => process.exit()));
server.listen(Number(process.env.PORT), '127.0.0.1', () => console.log('ready'));
`;

test('F18 serves a connection that waits to be accepted when the server closes', async () => {
  for (let round = 0; round < 4; round += 1) {
    const port = await freePort();
    const server = spawn(process.execPath, ['--input-type=module', '-e', SERVER], {
      env: { PORT: String(port) },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = once(server, 'exit');
    try {
      await once(server.stdout, 'data');
      const sockets = Array.from({ length: 8 }, () => connect(port, '127.0.0.1'));
      const responses = sockets.map((socket) => text(socket));
      for (const socket of sockets) socket.write('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n');
      await Promise.all(sockets.map((socket) => once(socket, 'connect')));
      server.kill('SIGTERM');
      for (const response of await Promise.all(responses)) expect(response).toMatch(/^HTTP\/1\.1 200 OK\r\n.*served/s);
      expect(await exited).toEqual([0, null]);
    } finally {
      server.kill('SIGKILL');
    }
  }
});
