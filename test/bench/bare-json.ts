/** The limits for BIN lookups: `node:http` or Express 5 that only returns one record as JSON. Prints its port. */
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';

const { SERVER = '', RECORD = '{}' } = process.env;
const record: unknown = JSON.parse(RECORD);

const server = createServer(SERVER === 'express' ? expressApp() : respond);
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));

function respond(...[request, response]: Parameters<RequestListener>): void {
  request.resume();
  const text = JSON.stringify(record);
  const headers = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) };
  response.writeHead(200, headers).end(text);
}

function expressApp(): RequestListener {
  const app = express();
  app.get('/:bin', (_request, response) => void response.json(record));
  return app;
}
