/** The limit of Node: `node:http` and an undici pool, no session, no header but the token's. Prints its port. */
import { createServer } from 'node:http';
import { Pool } from 'undici';

const pool = new Pool(process.argv[2] ?? '', { connections: 64, pipelining: 1 });

const server = createServer((request, response) => {
  request.resume();
  pool
    .stream(
      { path: '/1/threads/current', method: 'GET', headers: { authorization: 'Bearer bench' }, opaque: response },
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
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.stdout.write(`${typeof address === 'object' && address ? address.port : 0}\n`);
});
