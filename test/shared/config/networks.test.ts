/** R104: addresses and networks have one meaning in all their spellings. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  callerNetwork,
  isAllowedFrom,
  isInNetworks,
  networkFault,
  normalAddress,
} from '../../../src/shared/config/networks.ts';

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['192.0.2.1:4711', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::FFFF:c000:0201', '192.0.2.1'],
  ['[::ffff:192.0.2.1]:80', '192.0.2.1'],
  ['[2001:db8::1]:443', '2001:db8::1'],
  ['[2001:db8::1]', '2001:db8::1'],
  ['2001:DB8:0:0::1', '2001:db8::1'],
  ['fe80::1%eth0', 'fe80::1'],
])('R104 %s is the address %s', (text, address) => {
  expect(normalAddress(text)).toBe(address);
});

test.each([
  '',
  'unknown',
  '_hidden',
  '192.0.2',
  '192.0.2.256',
  '0x7f.0.0.1',
  '192.0.2.1:',
  '192.0.2.1:http',
  '010.0.0.1',
  '[192.0.2.1',
  '2001:db8::1]:443',
  '192.0.2.1 ',
  '192.0.2.1, 192.0.2.2',
  `fe80::1%${'x'.repeat(9_000)}`,
  '1'.repeat(9_000),
])('R104 %j is not an address', (text) => {
  expect(normalAddress(text)).toBeUndefined();
  expect(isInNetworks(text, ['0.0.0.0/0', '::/0'])).toBe(false);
});

test('R104 a canonical address stays unchanged', () => {
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
      const address = normalAddress(text) ?? '';
      expect(normalAddress(address)).toBe(address);
      expect(isInNetworks(text, [address])).toBe(true);
    }),
  );
});

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::9', '2001:db8:1:2::/64'],
  ['unknown', 'unknown'],
  ['not:an:address', 'not:an:address'],
])('R91 limits by address count %s as %s', (address, network) => {
  expect(callerNetwork(address)).toBe(network);
});

describe('a network includes', () => {
  test.each([
    ['10.0.0.1', '10.0.0.1', true],
    ['10.0.0.1', '10.0.0.2', false],
    ['10.0.0.0/8', '10.255.0.1', true],
    ['10.0.0.0/8', '11.0.0.1', false],
    ['10.0.0.0/8', '::ffff:10.1.2.3', true],
    ['::ffff:10.0.0.0/104', '10.1.2.3', true],
    ['::ffff:10.0.0.0/104', '11.1.2.3', false],
    ['::ffff:203.0.113.5', '203.0.113.5', true],
    // An old list may have such networks, which are refused now.
    ['10.1.2.3/8', '10.200.0.1', true],
    ['110.0.0.1', '1::ffff:10.0.0.1', false],
    ['2001:db8::1', '2001:db8::1', true],
    ['2001:db8::/32', '2001:db8:1::9', true],
    ['2001:db8::/32', '2001:db9::9', false],
    ['2001:db8::/32', '10.0.0.1', false],
    ['::/0', '10.0.0.1', false],
    ['0.0.0.0/0', '10.0.0.1', true],
    ['nonsense', '10.0.0.1', false],
  ])('%s: %s: %s', (network, address, isInside) => {
    expect(isInNetworks(address, ['192.0.2.77', network])).toBe(isInside);
  });
});

test('an empty list allows every address, and includes none', () => {
  expect([isAllowedFrom('10.0.0.1', []), isAllowedFrom('unknown', []), isInNetworks('10.0.0.1', [])]).toEqual([
    true,
    true,
    false,
  ]);
  expect([isAllowedFrom('10.0.0.1', ['10.0.0.0/8']), isAllowedFrom('11.0.0.1', ['10.0.0.0/8'])]).toEqual([true, false]);
});

describe('an entry', () => {
  test.each([
    '10.0.0.0/8',
    '192.0.2.7',
    '2001:db8::/32',
    '::1',
    '0.0.0.0/0',
    '::ffff:203.0.113.5',
    '::ffff:10.0.0.0/104',
  ])('is valid: %s', (text) => {
    expect(networkFault(text)).toBeUndefined();
  });

  test.each([
    '10/8',
    '0x0a.0.0.0/8',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '::/129',
    '1.2.3.4/a',
    'localhost',
    '',
    '10.0.0.0/8 ',
    '[::1]',
    '10.0.0.1:80',
    'fe80::1%eth0',
    '::ffff:10.0.0.0/64',
    '9'.repeat(9_000),
  ])('is refused: %s', (text) => {
    expect(networkFault(text)).toBe('is not an address or a CIDR such as 10.0.0.0/8 or 2001:db8::/32.');
  });

  test.each([
    ['10.0.0.1/8', '10.0.0.0/8'],
    ['2001:db8::1/32', '2001:db8::/32'],
    ['::ffff:10.1.2.3/104', '10.0.0.0/8'],
  ])('must be the start of its network: %s', (text, network) => {
    expect(networkFault(text)).toBe(`is not the start of its network: write ${network}.`);
  });
});
