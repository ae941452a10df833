/** Records the requests that reached the sandbox, for tests. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { ListenerName } from './listeners.ts';

export interface Hit {
  on: ListenerName;
  method: string;
  path: string;
  /** The request target with its query, as received. */
  url: string;
  headers: IncomingHttpHeaders;
  /** Alternating names and values in their original spelling. */
  rawHeaders: readonly string[];
  atMs: number;
}

export interface Hits {
  /** Number of requests by method and path, such as `POST /token`, on one listener or all three. */
  count(methodAndPath: string, on?: ListenerName): number;
  /** All counts since the start or the last reset. */
  all(): Record<string, number>;
  /** The latest requests, at most 10,000, oldest first. */
  requests(on?: ListenerName): Hit[];
  reset(): void;
}

const MAX_REQUESTS = 10_000;

export interface RecordedHits extends Hits {
  add(on: ListenerName, req: IncomingMessage): void;
}

export function createHits({ now }: { now: () => number }): RecordedHits {
  const counts = new Map<string, number>();
  let requests: Hit[] = [];

  return {
    add(on, req) {
      const { method = 'GET', url = '/', headers, rawHeaders } = req;
      const path = url.split('?')[0] ?? '/';
      for (const key of [`${method} ${path}`, `${on} ${method} ${path}`]) counts.set(key, (counts.get(key) ?? 0) + 1);
      requests.push({ on, method, path, url, headers, rawHeaders, atMs: now() });
      if (requests.length > 2 * MAX_REQUESTS) requests = requests.slice(-MAX_REQUESTS);
    },
    count: (methodAndPath, on) => counts.get(on === undefined ? methodAndPath : `${on} ${methodAndPath}`) ?? 0,
    all: () => Object.fromEntries([...counts].filter(([key]) => /^[A-Z]+ \//.test(key))),
    requests: (on) => requests.filter((hit) => on === undefined || hit.on === on).slice(-MAX_REQUESTS),
    reset() {
      counts.clear();
      requests = [];
    },
  };
}
