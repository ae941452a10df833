/** Records the requests that reached the sandbox, for tests. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { ListenerName } from './listeners.ts';

export interface RecordedRequest {
  listener: ListenerName;
  method: string;
  path: string;
  /** The request target with its query, as received. */
  url: string;
  headers: IncomingHttpHeaders;
  /** Alternating names and values in their original spelling. */
  rawHeaders: readonly string[];
  atMs: number;
}

export interface RecordedRequests {
  /** Number of requests by method and path, such as `POST /token`, on one listener or all three. */
  count(methodAndPath: string, listener?: ListenerName): number;
  /** The counts of every method and path since the start or the last reset. */
  counts(): Record<string, number>;
  /** The latest requests, at most 10,000, oldest first. */
  latest(listener?: ListenerName): RecordedRequest[];
  reset(): void;
}

const MAX_REQUESTS = 10_000;

export interface RequestRecorder extends RecordedRequests {
  add(listener: ListenerName, req: IncomingMessage): void;
}

export function createRequestRecorder({ now }: { now: () => number }): RequestRecorder {
  const counts = new Map<string, number>();
  let requests: RecordedRequest[] = [];

  return {
    add(listener, req) {
      const { method = 'GET', url = '/', headers, rawHeaders } = req;
      const path = url.split('?')[0] ?? '/';
      for (const key of [`${method} ${path}`, `${listener} ${method} ${path}`])
        counts.set(key, (counts.get(key) ?? 0) + 1);
      requests.push({ listener, method, path, url, headers, rawHeaders, atMs: now() });
      if (requests.length > 2 * MAX_REQUESTS) requests = requests.slice(-MAX_REQUESTS);
    },
    count: (methodAndPath, listener) =>
      counts.get(listener === undefined ? methodAndPath : `${listener} ${methodAndPath}`) ?? 0,
    counts: () => Object.fromEntries([...counts].filter(([key]) => /^[A-Z]+ \//.test(key))),
    latest: (listener) =>
      requests.filter((request) => listener === undefined || request.listener === listener).slice(-MAX_REQUESTS),
    reset() {
      counts.clear();
      requests = [];
    },
  };
}
