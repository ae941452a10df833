/** TLS to listeners with valid, expired, wrong and untrusted certificates. */
import { lookup as systemLookup } from 'node:dns';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { selfSigned } from '../../support/self-signed.ts';

const LIMITS = { deadlineMilliseconds: 120_000, maxBytes: 1_000 };
const certificates = {
  trusted: selfSigned('idp.example.com'),
  expired: selfSigned('idp.example.com', '200102000000Z'),
  unknown: selfSigned('idp.example.com'),
};
const servers: Server[] = [];
const requests: string[] = [];
let outbound: Outbound;
const defaultAuthorities = getCACertificates('default');

beforeAll(async () => {
  setDefaultCACertificates([...defaultAuthorities, certificates.trusted.cert, certificates.expired.cert]);
  const lookup = ((_name: string, options: object, done: never) =>
    systemLookup('127.0.0.1', options, done)) as unknown as typeof systemLookup;
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']), lookup });
});
afterAll(async () => {
  setDefaultCACertificates(defaultAuthorities);
  await outbound.close();
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
});

const toText = ({ reason, message, advice }: OutboundError) => `${reason}: ${message}. ${advice}`;

async function call(host: string, certificate: { key: string; cert: string }): Promise<string> {
  const server = createServer(certificate, (req, res) => {
    requests.push(req.url ?? '');
    res.end('{}');
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `https://${host}:${(server.address() as AddressInfo).port}/token`;
  return outbound.fetch(url, { method: 'POST', body: 'secret' }, LIMITS).then(
    ({ status }) => `status ${status}`,
    (error: unknown) => (error instanceof OutboundError ? toText(error) : String(error)),
  );
}

describe('R29: TLS is verified', () => {
  test('accepts a certificate for the right name from a trusted authority', async () => {
    expect(await call('idp.example.com', certificates.trusted)).toBe('status 200');
    expect(requests).toHaveLength(1);
  });

  test('refuses self-signed and expired certificates and those for another host, and sends nothing', async () => {
    requests.length = 0;
    expect(await call('idp.example.com', certificates.unknown)).toMatch(
      /^connection: the certificate of idp\.example\.com:\d+ is signed by an unknown authority \(DEPTH_ZERO\w+\).*CA_FILE/,
    );

    const otherName = /^connection: the certificate of \S+:\d+ is for another name \(ERR_TLS_CERT_ALTNAME_INVALID\)/;
    expect(await call('another.example.com', certificates.trusted)).toMatch(otherName);
    expect(await call('127.0.0.1', certificates.trusted)).toMatch(otherName);
    expect(await call('idp.example.com', certificates.expired)).toMatch(/has expired \(CERT_HAS_EXPIRED\)/);
    expect(requests).toEqual([]);
  });

  test('refuses plain http, except for loopback hosts in INTERNAL_HOSTS', async () => {
    for (const url of ['http://idp.example.com/', 'http://8.8.8.8/', 'http://[::1]/', 'http://localhost/']) {
      expect(() => outbound.assertAllowed(url)).toThrow(OutboundError);
    }
  });
});
