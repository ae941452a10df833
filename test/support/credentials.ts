/** Finds credentials in HTTP messages, and those of them that stand in a log line. Pure. */

/** Short ones would be found in words. */
const LEAST = 16;
/** Of requests, and of users, whom a relay token may name in place of a token. */
const ID = /^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|u[\w-]{22})$/i;

const FIELDS =
  /\b(?:code|code_verifier|refresh_token|access_token|token|client_secret|client_assertion|subject_token|actor_token|id_token_hint|logout_token|_csrf)=([^&\s"]+)/g;
const HEADERS = /^(authorization|dpop|cookie|x-csrf-token|gatehouse-user-assertion): *(.+?)\r?$/gim;

/** The pieces of credentials in an HTTP message, or in the start of one. A log that holds a credential holds its pieces. */
export function credentialsIn(message: string): string[] {
  const found = [...message.matchAll(FIELDS)].map(([, value = '']) => value);
  for (const [, name = '', value = ''] of message.matchAll(HEADERS)) found.push(...ofHeader(name.toLowerCase(), value));
  return found.flatMap((value) => piecesOf(decoded(value)));
}

function ofHeader(name: string, value: string): string[] {
  if (name === 'cookie') return value.split(';').map((pair) => pair.slice(pair.indexOf('=') + 1));
  const [, scheme = '', credentials = ''] = /^(\w+) +(.+)$/.exec(value) ?? [];
  if (scheme.toLowerCase() !== 'basic') return [scheme === '' ? value : credentials];
  const text = Buffer.from(credentials, 'base64').toString('utf8');
  const [user = '', password = ''] = [text.slice(0, text.indexOf(':')), text.slice(text.indexOf(':') + 1)];
  // A BIN lookup service takes its key as the user name.
  return [credentials, password === '' ? user : password];
}

/** Whatever a log would leave together: letters, digits, dashes. */
export function piecesOf(text: string): string[] {
  return (text.match(/[A-Za-z0-9_-]+/g) ?? []).filter((piece) => piece.length >= LEAST && !ID.test(piece));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The lines that hold a piece of a credential. */
export function leaks(lines: Iterable<string>, credentials: ReadonlySet<string>): string[] {
  return [...lines].filter((line) => piecesOf(line).some((piece) => credentials.has(piece)));
}
