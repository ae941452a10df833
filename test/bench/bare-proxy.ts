/** The limit of Node: `node:http` and an undici pool, without sessions, only the Authorization header. Prints its port. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';

const { UPSTREAM_URL = '', ACCESS_TOKEN = '' } = process.env;
const pool = new Pool(UPSTREAM_URL, { connections: 64, pipelining: 1 });
const authorization = `Bearer ${ACCESS_TOKEN}`;

const server = createServer((request, response) => {
  request.resume();
  pool
    .stream(
      { path: '/1/threads/current', method: 'GET', headers: { authorization }, opaque: response },
      ({ statusCode, headers }) => {
        response.writeHead(statusCode, {
          'content-type': String(headers['content-type']),
          'content-length': String(headers['content-length']),
        });
        return response;
      },
    )
    .catch(() => response.destroy());
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
