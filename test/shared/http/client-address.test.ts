/** R73, R104: the client address, which only trusted proxies can set. */
import type { IncomingMessage } from 'node:http';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { clientAddress } from '../../../src/shared/http/client-address.ts';

const requestFrom = (remoteAddress: string | undefined, forwarded?: string) =>
  ({ socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } }) as unknown as IncomingMessage;
const addressOf = clientAddress(['10.0.0.0/8']);
const addressFrom = (peer: string | undefined, forwarded?: string) => addressOf(requestFrom(peer, forwarded));

test.each([
  ['only the peer', '192.0.2.1', undefined, '192.0.2.1'],
  ['an untrusted peer that sends another address', '192.0.2.1', '198.51.100.7', '192.0.2.1'],
  ['a trusted proxy without the header', '10.0.0.1', undefined, '10.0.0.1'],
  ['a trusted proxy', '10.0.0.1', '198.51.100.7', '198.51.100.7'],
  ['ignores addresses that the client sent', '10.0.0.1', '203.0.113.9, 198.51.100.7', '198.51.100.7'],
  ['two trusted proxies', '10.0.0.1', '203.0.113.9, 198.51.100.7 , 10.0.0.2', '198.51.100.7'],
  ['two trusted proxies that add ports', '10.0.0.1', '203.0.113.9:1, 198.51.100.7:2, 10.0.0.2:3', '198.51.100.7'],
  ['only trusted proxies', '10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
  ['IPv4 on a dual-stack listener', '::ffff:10.0.0.1', '::ffff:198.51.100.7', '198.51.100.7'],
  ['IPv6 in brackets with a port', '10.0.0.1', '[2001:DB8::7]:4711', '2001:db8::7'],
  ['no address from a trusted proxy', '10.0.0.1', '198.51.100.7, unknown', 'unknown'],
  ['no address from a second trusted proxy', '10.0.0.1', 'junk, 10.0.0.2', 'unknown'],
  ['a Unix socket behind a trusted proxy', '10.0.0.1', 'unix:', 'unknown'],
  ['an empty header from a trusted proxy', '10.0.0.1', '', '10.0.0.1'],
  ['a disconnected peer', undefined, '198.51.100.7', 'unknown'],
])('R73 %s', (_name, peer, forwarded, address) => {
  expect(addressFrom(peer, forwarded)).toBe(address);
});

test('R73 the address that the trusted proxy saw counts, whatever a client sends', () => {
  fc.assert(
    fc.property(fc.string(), (claimed) => {
      expect(addressFrom('10.0.0.1', `${claimed}, 198.51.100.7`)).toBe('198.51.100.7');
      expect(addressFrom('192.0.2.1', claimed)).toBe('192.0.2.1');
    }),
  );
});

test('R104 X-Forwarded-For from a peer that is not listed, or without an address, is reported once', () => {
  const onFault = vi.fn();
  const reportingAddressOf = clientAddress(['10.0.0.0/8'], onFault);
  reportingAddressOf(requestFrom('192.0.2.1'));
  reportingAddressOf(requestFrom('10.0.0.1', '198.51.100.7'));
  expect(onFault).not.toHaveBeenCalled();

  for (let n = 0; n < 3; n += 1) reportingAddressOf(requestFrom('192.0.2.1', '198.51.100.7'));
  expect(onFault.mock.calls).toEqual([['untrusted', '192.0.2.1']]);

  for (let n = 0; n < 3; n += 1) reportingAddressOf(requestFrom('10.0.0.1', 'unknown'));
  expect(onFault.mock.calls).toEqual([
    ['untrusted', '192.0.2.1'],
    ['unreadable', '10.0.0.1'],
  ]);
});
