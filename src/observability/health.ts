/** The management listener: liveness, readiness and metrics (R90). */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';

export type Health = ReturnType<typeof createHealth>;

/**
 * @param parts `ready`: rejects while the storage cannot take a write. Providers and the platform do not matter.
 * `headers`: those of every response; names and values alternate
 */
export function createHealth(parts: { ready: () => Promise<void>; registry: Registry; headers: readonly string[] }) {
  const { ready, registry, headers } = parts;
  let draining = false;

  const send = (response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8') => {
    response.writeHead(status, [...headers, 'Content-Type', type]);
    response.end(body);
  };

  const handlers: Record<string, (response: ServerResponse) => Promise<void>> = {
    '/healthz': async (response) => send(response, 200, 'alive\n'),
    '/readyz': async (response) => {
      const isReady =
        !draining &&
        (await ready()
          .then(() => true)
          .catch(() => false));
      send(response, isReady ? 200 : 503, isReady ? 'ready\n' : 'not ready\n');
    },
    '/metrics': async (response) => send(response, 200, await registry.metrics(), registry.contentType),
  };

  return {
    listener: (request: IncomingMessage, response: ServerResponse) => {
      const handler = handlers[(request.url ?? '').split('?')[0] ?? ''];
      if (!handler) return send(response, 404, 'not found\n');
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.setHeader('allow', 'GET, HEAD');
        return send(response, 405, 'method not allowed\n');
      }
      handler(response).catch(() => send(response, 500, 'failed\n'));
    },
    /** Reports not ready from now on, so that the load balancer sends no new requests. */
    drain(): void {
      draining = true;
    },
  };
}
