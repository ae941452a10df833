/** The platform of the benchmark: answers one kilobyte of JSON, as fast as Node can. Prints its port. */
import { createServer } from 'node:http';

const body = Buffer.from(JSON.stringify({ thread: { id: 'bench', title: 'Benchmark' }, html: 'x'.repeat(960) }));
const headers = { 'content-type': 'application/json', 'content-length': String(body.length) };

const server = createServer((request, response) => {
  request.resume();
  response.writeHead(200, headers).end(body);
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.stdout.write(`${typeof address === 'object' && address ? address.port : 0}\n`);
});
