/**
 * The watch over the logs of the whole suite (R88). Loaded before every test file, it sees every credential that goes over HTTP
 * in that file's process. The file fails if a Gatehouse of that file, in this process or another one, logs a line that contains
 * one of them, a key or a card number, or that is not JSON.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { afterAll, expect } from 'vitest';
import { faultyLines, forget, hear } from './log-watch.ts';
import { watchSockets } from './outbound-recorder.ts';

const stopWatching = watchSockets((_port, text) => hear(text));
const REQUEST = 'http.server.request.start';
// What other processes send to a server of this one.
const hearRequest = (message: unknown) => {
  const { url, rawHeaders } = (message as { request: IncomingMessage }).request;
  const headers = rawHeaders.map((text, at) => (at % 2 === 0 ? `\n${text}: ` : text)).join('');
  hear(`${url}${headers}`);
};
subscribe(REQUEST, hearRequest);

afterAll(() => {
  // The next file in this process loads a watch of its own.
  stopWatching();
  unsubscribe(REQUEST, hearRequest);
  const faulty = faultyLines();
  forget();
  expect(faulty, 'R86, R88: what the log must not hold').toEqual({ credential: [], cardNumber: [], form: [] });
});
