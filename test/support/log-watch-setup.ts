/**
 * Owns the watch over the logs of the whole suite (R88): loaded before every test file, it hears every credential that goes over
 * HTTP in that file's process. The file fails where a line that a Gatehouse of it logged, in this process or in another one, holds
 * one of them, a key or a card number, or is no JSON.
 */
import { subscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { afterAll, expect } from 'vitest';
import { faultyLines, hear } from './log-watch.ts';
import { watchSockets } from './outbound-recorder.ts';

watchSockets((_port, text) => hear(text));
// What other processes send to a server of this one.
subscribe('http.server.request.start', (message) => {
  const { url, rawHeaders } = (message as { request: IncomingMessage }).request;
  const headers = rawHeaders.map((text, at) => (at % 2 === 0 ? `\n${text}: ` : text)).join('');
  hear(`${url}${headers}`);
});

afterAll(() => {
  expect(faultyLines(), 'R86, R88: what the log must not hold').toEqual({ credential: [], cardNumber: [], form: [] });
});
