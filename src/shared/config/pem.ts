/** Schemas for settings that name a PEM file (RFC 7468). A fault follows the name of the setting. */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { z } from 'zod';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

const NO_CERTIFICATE =
  ' names a file without a certificate in PEM form, which begins with -----BEGIN CERTIFICATE-----.';
const NO_KEY =
  ' names a file without a private key in PEM form that can be read without a passphrase, such as one that begins with -----BEGIN PRIVATE KEY-----.';

/** Transforms the text of a file into its certificates. */
export const certificates = z.string().transform((text, context) => {
  const refuse = (message: string) => {
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  };
  const pems = text.match(CERTIFICATE) ?? [];
  const brokenIndex = pems.findIndex((pem) => !isCertificate(pem));
  if (pems.length === 0) return refuse(NO_CERTIFICATE);
  return brokenIndex === -1
    ? [...pems]
    : refuse(` names a file whose certificate number ${brokenIndex + 1} cannot be read.`);
});

export const privateKey = z.string().refine((text) => readKey(text) !== undefined, NO_KEY);

/** Returns whether the first certificate, which is the client's, is for this key. */
export function isKeyOfCertificate([certificate = '']: readonly string[], key: string): boolean {
  const parsed = readKey(key);
  return parsed !== undefined && new X509Certificate(certificate).checkPrivateKey(parsed);
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem) !== undefined;
  } catch {
    return false;
  }
}

function readKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}
