/** The management listener: liveness, readiness and metrics (R90). */
import type { RequestListener, ServerResponse } from 'node:http';
import type { Metrics } from './metrics.ts';
import type { StorageFault, StorageWatch } from './storage-watch.ts';

export interface Health {
  /** Handles the requests to the management port. */
  listener: RequestListener;
  /** Reports not ready from now on, so that the load balancer sends no new requests. */
  drain(): void;
}

/** Why a process accepts no requests, as `/readyz` reports it. */
export type NotReady = { reason: 'starting' | 'draining' } | StorageFault;

export const readinessType = 'application/json; charset=utf-8';

/** Returns the body of `/readyz`. @param cause undefined if the process is ready */
export function readinessBody(cause?: NotReady): string {
  return `${JSON.stringify({ ready: cause === undefined, ...cause })}\n`;
}

export interface HealthParts {
  storage: Pick<StorageWatch, 'check' | 'fault'>;
  metrics: Pick<Metrics, 'registry' | 'watchReadiness'>;
  /** The headers of every response; names and values alternate. */
  headers: readonly string[];
}

/**
 * Creates the management listener. A process is ready if the storage accepts writes and the process does not drain,
 * even if providers and platforms do not respond.
 */
export function createHealth(parts: HealthParts): Health {
  const { storage, metrics, headers } = parts;
  const { registry } = metrics;
  let isDraining = false;
  metrics.watchReadiness(() => ({ ready: !isDraining && !storage.fault(), storageFault: storage.fault()?.reason }));

  const send = (response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8') => {
    response.writeHead(status, [...headers, 'Content-Type', type]);
    response.end(body);
  };

  const handlers: Record<string, (response: ServerResponse) => Promise<void>> = {
    '/healthz': async (response) => send(response, 200, 'alive\n'),
    '/readyz': async (response) => {
      const fault = isDraining ? undefined : await storage.check();
      // Draining may have begun during the check.
      const cause = isDraining ? { reason: 'draining' as const } : fault;
      send(response, cause ? 503 : 200, readinessBody(cause), readinessType);
    },
    '/metrics': async (response) => send(response, 200, await registry.metrics(), registry.contentType),
  };

  return {
    listener: (request, response) => {
      const handler = handlers[(request.url ?? '').split('?')[0] ?? ''];
      if (!handler) return send(response, 404, 'not found\n');
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.setHeader('allow', 'GET, HEAD');
        return send(response, 405, 'method not allowed\n');
      }
      handler(response).catch(() => send(response, 500, 'failed\n'));
    },
    drain() {
      isDraining = true;
    },
  };
}
