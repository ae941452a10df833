/** Refuses URLs that hold a card number, which redirects and forms would pass on (R85, R86). */
import type { RequestHandler } from 'express';
import { AppError } from '../errors.ts';
import { containsCardNumber } from '../observability/card-numbers.ts';

/** How many layers of percent-encoding are looked through. */
const MAX_DECODINGS = 3;

/** The text, and every text that decoding its percent-escapes yields, up to three times. */
export function decodedForms(text: string): string[] {
  const all = [text];
  let current = text;
  for (let count = 0; count < MAX_DECODINGS && current.includes('%'); count += 1) {
    current = decode(current);
    all.push(current);
  }
  return all.flatMap((form) => (form.includes('+') ? [form, form.replaceAll('+', ' ')] : form));
}

/** True if a URL or path holds a card number, also behind percent-encoding. */
export function holdsCardNumber(url: string): boolean {
  return decodedForms(url).some(containsCardNumber);
}

/** Works on bytes: `decodeURIComponent` would throw at one bad escape and hide the digits beside it. */
function decode(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'));
}

/**
 * Runs before anything that could repeat the URL. Two queries are not checked: that of a callback, because codes and states
 * may be long numbers, and that of a sign-in, which itself drops a return path with a card number.
 */
export function cardNumberGuard({ basePath }: { basePath: string }): RequestHandler {
  const uncheckedQueries = [`${basePath}/oauth/callback/`, `${basePath}/sign-in`];
  return (req, _res, next) => {
    const checked = uncheckedQueries.some((path) => req.path.startsWith(path)) ? req.path : req.originalUrl;
    if (!holdsCardNumber(checked)) return next();
    const code = req.path.startsWith(`${basePath}/bin/`) ? 'invalid_bin' : 'invalid_request';
    return next(
      new AppError(code, { detail: 'The address holds more digits of a card than we may see. Leave them out.' }),
    );
  };
}
