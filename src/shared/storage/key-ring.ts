/** Reads and checks ENCRYPTION_KEYS, and generates new keys. */
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { isGuessable, splitEntries } from '../config/rules.ts';

export interface EncryptionKey {
  kid: string;
  /** 32 bytes, as a KeyObject, which reveals nothing if it is logged or serialised by mistake. */
  key: KeyObject;
}

const KEY_BYTES = 32;
const KID = /^[A-Za-z0-9_-]{1,40}$/;
const REMEDY = 'Generate one with: npm run -s gatehouse -- keys generate';

/**
 * Parses ENCRYPTION_KEYS. Faults name an entry only by its position, since a misplaced colon could put key material in
 * place of the key id.
 */
export function parseEncryptionKeys(text: string): { keys: EncryptionKey[] } | { faults: string[] } {
  const entries = splitEntries(text);
  if (entries.every((entry) => entry === '')) return { faults: [`ENCRYPTION_KEYS is empty. ${REMEDY}`] };
  const keys: EncryptionKey[] = [];
  const faults: string[] = [];
  for (const [index, entry] of entries.entries()) {
    const parsed = parseEntry(entry);
    const fault = typeof parsed === 'string' ? parsed : repetition(parsed, keys);
    if (fault !== undefined) faults.push(`ENCRYPTION_KEYS: number ${index + 1} ${fault}`);
    else if (typeof parsed !== 'string') keys.push(parsed);
  }
  return faults.length > 0 ? { faults } : { keys };
}

/** Returns a new entry for ENCRYPTION_KEYS in the form `kid:base64url`, with a key id that begins with the date. */
export function generateEncryptionKey(now: Date): string {
  const date = now.toISOString().slice(0, 10).replaceAll('-', '');
  return `k${date}-${randomBytes(2).toString('hex')}:${randomBytes(KEY_BYTES).toString('base64url')}`;
}

/** Returns the key, or the fault as the end of a sentence. */
function parseEntry(entry: string): EncryptionKey | string {
  const colon = entry.indexOf(':');
  if (colon === -1) return `does not have the form kid:base64url. ${REMEDY}`;
  const kid = entry.slice(0, colon);
  if (!KID.test(kid))
    return 'has a key id that is not 1 to 40 of A-Z, a-z, 0-9, _ and -. Correct the part before the colon.';
  const encoded = entry.slice(colon + 1);
  const bytes = Buffer.from(encoded, 'base64url');
  if (bytes.toString('base64url') !== encoded) return `has a key that is not base64url without padding. ${REMEDY}`;
  if (bytes.length !== KEY_BYTES) return `has a key of ${bytes.length} bytes instead of ${KEY_BYTES}. ${REMEDY}`;
  if (isReadableText(bytes) || isGuessable(bytes)) return `has a key that is not random. ${REMEDY}`;
  return { kid, key: createSecretKey(bytes) };
}

function repetition({ kid, key }: EncryptionKey, earlier: readonly EncryptionKey[]): string | undefined {
  if (earlier.some((entry) => entry.kid === kid))
    return 'repeats the key id of an earlier entry. Each key needs a different id.';
  if (earlier.some((entry) => entry.key.equals(key)))
    return 'repeats the key of an earlier entry. Remove one of the two.';
  return undefined;
}

function isReadableText(bytes: Buffer): boolean {
  return bytes.every((byte) => byte >= 0x20 && byte < 0x7f);
}
