/** Creates a self-signed TLS certificate (X.509 v3 with a P-256 key) for one host name, without external tools. */
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** Tags of DER (X.690), and those that RFC 5280 gives to parts of a certificate. */
const SEQUENCE = 0x30;
const SET = 0x31;
const UTF8_STRING = 0x0c;
const UTC_TIME = 0x17;
const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const DNS_NAME = 0x82;
const VERSION = 0xa0;
const EXTENSIONS = 0xa3;

/** @param notAfter in UTCTime. @param subject must be unique among certificates that are trusted together */
export function selfSigned(host: string, notAfter = '491231235959Z', subject = host): { key: string; cert: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSha256 = derElement(SEQUENCE, Buffer.from('06082a8648ce3d040302', 'hex'));
  const name = derElement(
    SEQUENCE,
    derElement(
      SET,
      derElement(SEQUENCE, Buffer.from('0603550403', 'hex'), derElement(UTF8_STRING, Buffer.from(subject))),
    ),
  );
  const validity = derElement(
    SEQUENCE,
    derElement(UTC_TIME, Buffer.from('200101000000Z')),
    derElement(UTC_TIME, Buffer.from(notAfter)),
  );
  const names = derElement(SEQUENCE, derElement(DNS_NAME, Buffer.from(host)));
  const alternativeNames = derElement(SEQUENCE, Buffer.from('0603551d11', 'hex'), derElement(OCTET_STRING, names));
  const authority = derElement(
    SEQUENCE,
    Buffer.from('0603551d130101ff', 'hex'),
    derElement(OCTET_STRING, Buffer.from('30030101ff', 'hex')),
  );
  const toBeSigned = derElement(
    SEQUENCE,
    derElement(VERSION, Buffer.from('020102', 'hex')),
    derElement(INTEGER, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    derElement(EXTENSIONS, derElement(SEQUENCE, authority, alternativeNames)),
  );
  const signature = derElement(BIT_STRING, Buffer.from([0]), sign('sha256', toBeSigned, privateKey));
  const der = derElement(SEQUENCE, toBeSigned, ecdsaWithSha256, signature).toString('base64');
  const cert = `-----BEGIN CERTIFICATE-----\n${der.replaceAll(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`;
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), cert };
}

/** X.690 section 8.1.3: a short length is one octet; a long one is preceded by the number of its octets. */
function lengthOctets(length: number): number[] {
  if (length < 128) return [length];
  if (length < 256) return [0x81, length];
  return [0x82, length >> 8, length & 255];
}

function derElement(tag: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag, ...lengthOctets(body.length)]), body]);
}
