/**
 * Watches the logs of the whole suite (R88). Loaded before every test file, it collects every credential in the HTTP
 * traffic of that file's process. The file fails if a Gatehouse of that file, in this process or another, logs a line
 * that contains one of them, a key or a card number, or that is not JSON.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { afterAll, expect } from 'vitest';
import { collectCredentials, faultyLines, resetWatch } from './log-watch.ts';
import { watchSockets } from './outbound-recorder.ts';

const stopWatching = watchSockets((_port, text) => collectCredentials(text));
const REQUEST = 'http.server.request.start';
// Requests from other processes to a server of this process.
const collectFromRequest = (message: unknown) => {
  const { url, rawHeaders } = (message as { request: IncomingMessage }).request;
  const headers = rawHeaders.map((text, at) => (at % 2 === 0 ? `\n${text}: ` : text)).join('');
  collectCredentials(`${url}${headers}`);
};
subscribe(REQUEST, collectFromRequest);

afterAll(() => {
  // The next file in this process starts its own watch.
  stopWatching();
  unsubscribe(REQUEST, collectFromRequest);
  const faulty = faultyLines();
  resetWatch();
  expect(faulty, 'R86, R88: forbidden lines in the log').toEqual({ credential: [], cardNumber: [], form: [] });
});
