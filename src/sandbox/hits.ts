/** Owns the record of what reached the sandbox, for tests to count and to read. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { ListenerName } from './listeners.ts';

export interface Hit {
  on: ListenerName;
  method: string;
  path: string;
  /** With its query, as it stood in the request line. */
  url: string;
  headers: IncomingHttpHeaders;
  /** Names and values by turns, as they were spelled. */
  rawHeaders: readonly string[];
  atMs: number;
}

export interface Hits {
  /** How many requests came, by method and path, such as `POST /token`; over all three listeners unless one is named. */
  count(methodAndPath: string, on?: ListenerName): number;
  /** Every count since the start or the last reset. */
  all(): Record<string, number>;
  /** The latest requests (at most 10,000 are kept), oldest first. */
  requests(on?: ListenerName): Hit[];
  reset(): void;
}

const MAX_REQUESTS = 10_000;

export function createHits({
  now,
}: {
  now: () => number;
}): Hits & { add(on: ListenerName, req: IncomingMessage): void } {
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
