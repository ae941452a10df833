/**
 * The watch over the whole run that R86 demands. Loaded before every test file, it sees each request of Gatehouse to a BIN
 * lookup service of that file, from this process or another one. The file fails if the head of a request contains nine
 * digits in a row, or if it has a body.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { afterAll, expect } from 'vitest';

const refused: string[] = [];
let heard = 0;

/** How many requests it has heard in this file. */
export const heardSoFar = (): number => heard;

const REQUEST = 'http.server.request.start';
const hear = (message: unknown) => {
  const { method, url, headers, rawHeaders } = (message as { request: IncomingMessage }).request;
  // Only our client says this one; a provider that a test plays gets no such header.
  if (headers['accept-version'] === undefined) return;
  heard += 1;
  const head = [method, url, ...rawHeaders].join('\n');
  const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
  if (hasBody || /\d{9}/.test(head)) refused.push(`${head}${hasBody ? '\nwith a body' : ''}`);
};
subscribe(REQUEST, hear);

afterAll(() => {
  // The next file in this process loads a watch of its own.
  unsubscribe(REQUEST, hear);
  expect(refused, 'R86: what left for a BIN lookup service held nine digits in a row, or a body').toEqual([]);
});
