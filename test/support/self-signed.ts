/** Creates a self-signed TLS certificate (X.509 v3 with a P-256 key) for one host name, without external tools. */
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** @param notAfter in UTCTime. @param subject must be unique among certificates that are trusted together */
export function selfSigned(host: string, notAfter = '491231235959Z', subject = host): { key: string; cert: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSha256 = derElement(0x30, Buffer.from('06082a8648ce3d040302', 'hex'));
  const name = derElement(
    0x30,
    derElement(0x31, derElement(0x30, Buffer.from('0603550403', 'hex'), derElement(0x0c, Buffer.from(subject)))),
  );
  const validity = derElement(
    0x30,
    derElement(0x17, Buffer.from('200101000000Z')),
    derElement(0x17, Buffer.from(notAfter)),
  );
  const names = derElement(0x30, derElement(0x82, Buffer.from(host)));
  const alternativeNames = derElement(0x30, Buffer.from('0603551d11', 'hex'), derElement(0x04, names));
  const authority = derElement(
    0x30,
    Buffer.from('0603551d130101ff', 'hex'),
    derElement(0x04, Buffer.from('30030101ff', 'hex')),
  );
  const toBeSigned = derElement(
    0x30,
    derElement(0xa0, Buffer.from('020102', 'hex')),
    derElement(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    derElement(0xa3, derElement(0x30, authority, alternativeNames)),
  );
  const signature = derElement(0x03, Buffer.from([0]), sign('sha256', toBeSigned, privateKey));
  const der = derElement(0x30, toBeSigned, ecdsaWithSha256, signature).toString('base64');
  const cert = `-----BEGIN CERTIFICATE-----\n${der.replaceAll(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`;
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), cert };
}

function derElement(tag: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const length =
    body.length < 128
      ? [body.length]
      : body.length < 256
        ? [0x81, body.length]
        : [0x82, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
}
