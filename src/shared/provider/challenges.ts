/** Reads the challenges of `WWW-Authenticate` (RFC 9110 section 11.6.1). Pure. */

export interface Challenge {
  /** In lower case. */
  scheme: string;
  /** By names in lower case. If a name is repeated, the first value counts. */
  parameters: Readonly<Record<string, string>>;
}

/** A parameter with a quoted or plain value, or a scheme, which may have credentials after it (token68), such as `YWI=`. */
const PART = /[\s,]*([!#$%&'*+.^_`|~\w-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))| +[\w.~+/-]+=*(?=\s*(?:,|$)))?/y;

/** Returns the challenges up to the first that cannot be read. @param header several headers may be joined by commas */
export function challengesIn(header: string): Challenge[] {
  const challenges: { scheme: string; parameters: Record<string, string> }[] = [];
  const part = new RegExp(PART);
  for (let match = part.exec(header); match; match = part.exec(header)) {
    const [, name = '', quoted, plain] = match;
    const value = quoted?.replaceAll(/\\(.)/g, '$1') ?? plain;
    const current = challenges.at(-1);
    if (value === undefined) challenges.push({ scheme: name.toLowerCase(), parameters: {} });
    else if (current) current.parameters[name.toLowerCase()] ??= value;
  }
  return challenges;
}

const TOKEN_SCHEMES: readonly string[] = ['bearer', 'dpop'];

/** Returns the parameters of the first challenge for an access token with one of these errors (RFC 6750 section 3). */
export function tokenChallenge(
  { statusCode, headers }: { statusCode: number; headers: { 'www-authenticate'?: string | string[] | undefined } },
  errors: readonly string[],
): Challenge['parameters'] | undefined {
  const header = headers['www-authenticate'];
  if ((statusCode !== 401 && statusCode !== 403) || header === undefined) return undefined;
  return challengesIn(String(header)).find(
    ({ scheme, parameters: { error = '' } }) => TOKEN_SCHEMES.includes(scheme) && errors.includes(error),
  )?.parameters;
}
