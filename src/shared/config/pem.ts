/** The rules for settings that name a file in PEM form (RFC 7468). A fault continues the name of the setting. */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { z } from 'zod';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

const NO_CERTIFICATE =
  ' names a file without a certificate in PEM form, which begins with -----BEGIN CERTIFICATE-----.';
const NO_KEY =
  ' names a file without a private key in PEM form that can be read without a passphrase, such as one that begins with -----BEGIN PRIVATE KEY-----.';

/** The certificates of the file, one by one. */
export const certificates = z.string().transform((text, context) => {
  const refuse = (message: string) => {
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  };
  const found = text.match(CERTIFICATE) ?? [];
  const broken = found.findIndex((pem) => !isCertificate(pem));
  if (found.length === 0) return refuse(NO_CERTIFICATE);
  return broken === -1 ? [...found] : refuse(` names a file whose certificate number ${broken + 1} cannot be read.`);
});

export const privateKey = z.string().refine((text) => readKey(text) !== undefined, NO_KEY);

/** True if the first certificate, the holder's own, is for this key. */
export function belongTogether([own = '']: readonly string[], key: string): boolean {
  const parsed = readKey(key);
  return parsed !== undefined && new X509Certificate(own).checkPrivateKey(parsed);
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
