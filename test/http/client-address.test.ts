/** R73: from which address a request comes, as proxies of ours say it, whatever anybody else claims. */
import type { IncomingMessage } from 'node:http';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { clientAddress } from '../../src/http/client-address.ts';
import { trustedProxies } from '../../src/http/trusted-proxies.ts';

const addressOf = clientAddress((address) => address.startsWith('10.'));
const from = (remoteAddress: string | undefined, forwarded?: string | string[]) =>
  addressOf({ socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } } as unknown as IncomingMessage);

test.each([
  ['the peer alone', '192.0.2.1', undefined, '192.0.2.1'],
  ['a stranger who claims another', '192.0.2.1', '198.51.100.7', '192.0.2.1'],
  ['a proxy of ours that says nothing', '10.0.0.1', undefined, '10.0.0.1'],
  ['a proxy of ours', '10.0.0.1', '198.51.100.7', '198.51.100.7'],
  ['what the client wrote before it counts for nothing', '10.0.0.1', '203.0.113.9, 198.51.100.7', '198.51.100.7'],
  ['two proxies of ours', '10.0.0.1', '203.0.113.9, 198.51.100.7 , 10.0.0.2', '198.51.100.7'],
  ['ours all the way', '10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
  ['IPv4 on a dual-stack listener', '::ffff:10.0.0.1', '::ffff:198.51.100.7', '198.51.100.7'],
  ['IPv6 as it is', '::ffff:beef', undefined, '::ffff:beef'],
  ['a peer that is gone', undefined, '198.51.100.7', ''],
])('R73 %s', (_what, peer, forwarded, address) => {
  expect(from(peer, forwarded)).toBe(address);
});

test('R73 whatever a client writes, what our proxy saw of it is what counts', () => {
  fc.assert(
    fc.property(fc.string(), (claimed) => {
      expect(from('10.0.0.1', `${claimed}, 198.51.100.7`)).toBe('198.51.100.7');
      expect(from('192.0.2.1', claimed)).toBe('192.0.2.1');
    }),
  );
});

test.each([
  [['10.0.0.1'], '10.0.0.1', true],
  [['10.0.0.1'], '10.0.0.2', false],
  [['10.0.0.0/8'], '10.255.0.1', true],
  [['10.0.0.0/8'], '11.0.0.1', false],
  [['10.0.0.0/8', '192.0.2.1'], '192.0.2.1', true],
  [['10.0.0.0/8'], '::ffff:10.1.2.3', true],
  [['10.0.0.0/8'], '::ffff:11.1.2.3', false],
  [['110.0.0.1'], '1::ffff:10.0.0.1', false],
  [['2001:db8::1'], '2001:db8::1', true],
  [['2001:db8::1'], '2001:db8::2', false],
  [['2001:db8::/32'], '2001:db8:1::9', true],
  [['2001:db8::/32'], '2001:db9::9', false],
  [['2001:db8::/32'], '10.0.0.1', false],
  [['::/0', '0.0.0.0/0'], '', false],
  [[], '10.0.0.1', false],
  [[], '', false],
])('R73 with proxies of ours at %j, %s is one: %s', (networks, address, isOne) => {
  expect(trustedProxies(networks)(address)).toBe(isOne);
});
