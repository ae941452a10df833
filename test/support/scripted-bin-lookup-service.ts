/** A BIN lookup service whose responses a test sets, and that records every request. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ScriptedHit {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
}

export interface ScriptedBinService {
  url: string;
  hits: ScriptedHit[];
  /** Sets the handler of all further requests. */
  respondWith(handler: (response: ServerResponse, hit: ScriptedHit) => void): void;
  close(): Promise<void>;
}

export async function startScriptedBinService(): Promise<ScriptedBinService> {
  const hits: ScriptedHit[] = [];
  let handle: (response: ServerResponse, hit: ScriptedHit) => void = (response) => response.writeHead(404).end();
  const server = createServer((request, response) => {
    const hit = { method: request.method ?? '', url: request.url ?? '', headers: request.headers };
    hits.push(hit);
    handle(response, hit);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hits,
    respondWith(handler) {
      handle = handler;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export function sendJson(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
