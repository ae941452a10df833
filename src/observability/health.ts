/** The management listener: liveness, readiness and metrics (R90). */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';

export interface Health {
  listener: RequestListener;
  /** Reports not ready from now on, so that the load balancer sends no new requests. */
  drain(): void;
}

/**
 * @param parts `ready`: rejects while the storage cannot take a write. Providers and the platform do not matter
 */
export function createHealth(parts: { ready: () => Promise<void>; registry: Registry }): Health {
  let draining = false;

  const handlers: Record<string, (response: ServerResponse) => Promise<void>> = {
    '/healthz': async (response) => send(response, 200, 'text/plain; charset=utf-8', 'alive\n'),
    '/readyz': async (response) => {
      const ready =
        !draining &&
        (await parts.ready().then(
          () => true,
          () => false,
        ));
      send(response, ready ? 200 : 503, 'text/plain; charset=utf-8', ready ? 'ready\n' : 'not ready\n');
    },
    '/metrics': async (response) => send(response, 200, parts.registry.contentType, await parts.registry.metrics()),
  };

  return {
    listener: (request: IncomingMessage, response: ServerResponse) => {
      const handler = handlers[(request.url ?? '').split('?')[0] ?? ''];
      if (!handler) return send(response, 404, 'text/plain; charset=utf-8', 'not found\n');
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.setHeader('allow', 'GET, HEAD');
        return send(response, 405, 'text/plain; charset=utf-8', 'method not allowed\n');
      }
      handler(response).catch(() => send(response, 500, 'text/plain; charset=utf-8', 'failed\n'));
    },
    drain() {
      draining = true;
    },
  };
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, {
    'content-type': type,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  response.end(body);
}
