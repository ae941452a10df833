/**
 * Watches the whole run for R86. Loaded before every test file, it sees each request of Gatehouse to a BIN lookup
 * service of that file, from this process or another. The file fails if the head of a request contains nine
 * consecutive digits, or if it has a body.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { afterAll, expect } from 'vitest';

const violations: string[] = [];
let requestCount = 0;

/** The number of requests so far in this file. */
export const countBinRequests = (): number => requestCount;

const REQUEST = 'http.server.request.start';
const check = (message: unknown) => {
  const { method, url, headers, rawHeaders } = (message as { request: IncomingMessage }).request;
  // Only Gatehouse's client sends this header. Requests to simulated providers do not have it.
  if (headers['accept-version'] === undefined) return;
  requestCount += 1;
  const head = [method, url, ...rawHeaders].join('\n');
  const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
  if (hasBody || /\d{9}/.test(head)) violations.push(`${head}${hasBody ? '\nwith a body' : ''}`);
};
subscribe(REQUEST, check);

afterAll(() => {
  // The next file in this process starts its own watch.
  unsubscribe(REQUEST, check);
  expect(violations, 'R86: a request to a BIN lookup service contained nine consecutive digits, or a body').toEqual([]);
});
