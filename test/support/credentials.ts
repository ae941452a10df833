/** Finds credentials in HTTP messages and in log lines. */

/** Shorter pieces would also match ordinary words. */
const MIN_LENGTH = 16;
/** Ids of requests, and of users, which a relay token may name instead of a token. */
const ID = /^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|u[\w-]{22})$/i;

const FIELDS =
  /\b(?:code|code_verifier|refresh_token|access_token|token|client_secret|client_assertion|subject_token|actor_token|id_token_hint|logout_token|_csrf)=([^&\s"]+)/g;
const HEADERS = /^(authorization|dpop|cookie|x-csrf-token|gatehouse-user-assertion): *(.+?)\r?$/gim;

/** Returns the pieces of credentials in an HTTP message or its start. A log with a credential contains its pieces. */
export function credentialsIn(message: string): string[] {
  const values = [...message.matchAll(FIELDS)].map(([, value = '']) => value);
  for (const [, name = '', value = ''] of message.matchAll(HEADERS))
    values.push(...credentialsOfHeader(name.toLowerCase(), value));
  return values.flatMap((value) => piecesOf(decodeIfEncoded(value)));
}

function credentialsOfHeader(name: string, value: string): string[] {
  if (name === 'cookie') return value.split(';').map((pair) => pair.slice(pair.indexOf('=') + 1));
  const [, scheme = '', credentials = ''] = /^(\w+) +(.+)$/.exec(value) ?? [];
  if (scheme.toLowerCase() !== 'basic') return [scheme === '' ? value : credentials];
  const text = Buffer.from(credentials, 'base64').toString('utf8');
  const [user = '', password = ''] = [text.slice(0, text.indexOf(':')), text.slice(text.indexOf(':') + 1)];
  // A BIN lookup service accepts its key as the user name.
  return [credentials, password === '' ? user : password];
}

/** Splits a text into sequences of letters, digits, dashes and underscores, which a log would not break up. */
export function piecesOf(text: string): string[] {
  return (text.match(/[A-Za-z0-9_-]+/g) ?? []).filter((piece) => piece.length >= MIN_LENGTH && !ID.test(piece));
}

function decodeIfEncoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the lines that contain a piece of a credential. */
export function linesWithCredentials(lines: Iterable<string>, credentials: ReadonlySet<string>): string[] {
  return [...lines].filter((line) => piecesOf(line).some((piece) => credentials.has(piece)));
}
