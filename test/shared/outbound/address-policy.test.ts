import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type AddressRule, createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';

const strict = createAddressPolicy([]);

describe('R79: without INTERNAL_HOSTS', () => {
  const table: [string, AddressRule | undefined][] = [
    ['https://idp.example.com/token', undefined],
    ['https://8.8.8.8/', undefined],
    ['https://[2606:4700:4700::1111]/', undefined],
    ['http://idp.example.com/', 'not_https'],
    ['http://8.8.8.8/', 'not_https'],
    ['http://localhost/', 'not_https'],
    ['https://user@idp.example.com/', 'userinfo'],
    ['https://:secret@idp.example.com/', 'userinfo'],
    ['ftp://idp.example.com/', 'not_absolute'],
    ['javascript:alert(1)', 'not_absolute'],
    ['file:///etc/passwd', 'not_absolute'],
    ['/token', 'not_absolute'],
    ['', 'not_absolute'],
    ['https://127.0.0.1/', 'private_address'],
    ['https://127.8.8.8/', 'private_address'],
    ['https://10.0.0.1/', 'private_address'],
    ['https://172.16.0.1/', 'private_address'],
    ['https://172.31.255.255/', 'private_address'],
    ['https://192.168.1.1/', 'private_address'],
    ['https://100.64.0.1/', 'private_address'],
    ['https://[::1]/', 'private_address'],
    ['https://[fc00::1]/', 'private_address'],
    ['https://[fdff::1]/', 'private_address'],
    // The same addresses in unusual notations.
    ['https://2130706433/', 'private_address'],
    ['https://0x7f000001/', 'private_address'],
    ['https://0177.0.0.1/', 'private_address'],
    ['https://127.1/', 'private_address'],
    ['https://１２７.0.0.1/', 'private_address'],
    ['https://[::ffff:127.0.0.1]/', 'private_address'],
    ['https://[::ffff:a00:1]/', 'private_address'],
    ['https://[0:0:0:0:0:0:0:1]/', 'private_address'],
    // These addresses are forbidden even if INTERNAL_HOSTS names them.
    ['https://169.254.169.254/latest/meta-data', 'forbidden_address'],
    ['https://[::ffff:169.254.169.254]/', 'forbidden_address'],
    ['https://2852039166/', 'forbidden_address'],
    ['https://169.254.1.1/', 'forbidden_address'],
    ['https://[fe80::1]/', 'forbidden_address'],
    ['https://[fd00:ec2::254]/', 'forbidden_address'],
    ['https://100.100.100.200/', 'forbidden_address'],
    ['https://192.0.0.192/', 'forbidden_address'],
    ['https://168.63.129.16/', 'forbidden_address'],
    ['https://[fd00:ec2::23]/', 'forbidden_address'],
    ['https://[fd20:ce::254]/', 'forbidden_address'],
    ['https://[fd00:c1::a9fe:a9fe]/', 'forbidden_address'],
    ['https://[fd00:100::100:200]/', 'forbidden_address'],
    ['https://[fd00:a9fe:a9fe::1]/', 'forbidden_address'],
    ['https://[fd00:42::42]/', 'forbidden_address'],
    ['https://0.0.0.0/', 'forbidden_address'],
    ['https://[::]/', 'forbidden_address'],
    ['https://[::127.0.0.1]/', 'forbidden_address'],
    ['https://[::a00:1]/', 'forbidden_address'],
    ['https://255.255.255.255/', 'forbidden_address'],
    ['https://224.0.0.1/', 'forbidden_address'],
    ['https://[ff02::1]/', 'forbidden_address'],
    ['https://240.0.0.1/', 'forbidden_address'],
    ['https://198.18.0.1/', 'forbidden_address'],
    ['https://[64:ff9b::7f00:1]/', 'forbidden_address'],
    ['https://[64:ff9b:1::a00:1]/', 'forbidden_address'],
    ['https://[2002:7f00:1::]/', 'forbidden_address'],
    ['https://[2001::1]/', 'forbidden_address'],
    ['https://[fec0::1]/', 'forbidden_address'],
  ];
  test.each(table)('%s: %s', (url, rule) => {
    expect(strict.checkUrl(url)).toBe(rule);
  });

  test('refuses private IPv4 addresses in every notation', () => {
    const privateAddress = fc.oneof(
      fc.tuple(fc.constant(127), fc.nat(255), fc.nat(255), fc.nat(255)),
      fc.tuple(fc.constant(10), fc.nat(255), fc.nat(255), fc.nat(255)),
      fc.tuple(fc.constant(192), fc.constant(168), fc.nat(255), fc.nat(255)),
      fc.tuple(fc.constant(172), fc.integer({ min: 16, max: 31 }), fc.nat(255), fc.nat(255)),
      fc.tuple(fc.constant(169), fc.constant(254), fc.nat(255), fc.nat(255)),
    );
    fc.assert(
      fc.property(privateAddress, (octets) => {
        const [a, b, c, d] = octets;
        const number = octets.reduce((sum, octet) => sum * 256 + octet, 0);
        const forms = [
          `${a}.${b}.${c}.${d}`,
          `${number}`,
          `0x${number.toString(16)}`,
          `0${a.toString(8)}.${b}.${c * 256 + d}`,
          `[::ffff:${a}.${b}.${c}.${d}]`,
          `[64:ff9b::${a}.${b}.${c}.${d}]`,
        ];
        for (const host of forms) expect(strict.checkUrl(`https://${host}/`)).toMatch(/private|forbidden/);
      }),
    );
  });
});

describe('R79: with INTERNAL_HOSTS', () => {
  const policy = createAddressPolicy(['127.0.0.1', '10.1.0.0/16', 'idp.internal', 'fd12::/16']);
  const table: [string, AddressRule | undefined][] = [
    ['http://127.0.0.1:3001/token', undefined],
    ['https://127.0.0.1/', undefined],
    ['https://[::ffff:127.0.0.1]/', undefined],
    ['http://127.0.0.2/', 'private_address'],
    ['http://[::1]/', 'private_address'],
    ['http://localhost/', 'not_https'],
    ['https://10.1.2.3/', undefined],
    ['http://10.1.2.3/', 'not_https'],
    ['https://10.2.0.1/', 'private_address'],
    ['https://idp.internal/', undefined],
    ['http://idp.internal/', 'not_https'],
    ['https://[fd12::9]/', undefined],
    ['https://[fd13::9]/', 'private_address'],
    ['https://169.254.169.254/', 'forbidden_address'],
    ['https://[fd00:ec2::254]/', 'forbidden_address'],
  ];
  test.each(table)('%s: %s', (url, rule) => {
    expect(policy.checkUrl(url)).toBe(rule);
  });

  test('a name in INTERNAL_HOSTS may resolve to a private address, but never to a forbidden one', () => {
    expect(policy.checkAddress('IDP.internal', '10.9.9.9')).toBeUndefined();
    expect(policy.checkAddress('idp.internal', '169.254.169.254')).toBe('forbidden_address');
    expect(policy.checkAddress('idp.internal', 'fe80::1')).toBe('forbidden_address');
    expect(policy.checkAddress('idp.internal', 'fd20:ce::254')).toBe('forbidden_address');
    expect(policy.checkAddress('idp.internal.evil.example.com', '10.9.9.9')).toBe('private_address');
    expect(policy.checkAddress('rebinds.example.com', '10.9.9.9')).toBe('private_address');
    expect(policy.checkAddress('rebinds.example.com', '::ffff:192.168.0.1')).toBe('private_address');
    expect(policy.checkAddress('rebinds.example.com', '10.1.9.9')).toBeUndefined();
  });
});
