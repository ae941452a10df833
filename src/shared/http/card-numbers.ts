/** Refuses URLs that hold a card number, because redirects and forms would repeat it (R85, R86). */
import type { Request, RequestHandler } from 'express';
import { AppError } from '../errors.ts';
import { containsCardNumber } from '../observability/card-numbers.ts';

/** How many layers of percent-encoding are decoded. */
const MAX_DECODINGS = 3;

/**
 * Returns the text and the result of each of up to three rounds of percent-decoding, also with plus signs as spaces.
 */
export function decodedForms(text: string): string[] {
  const forms = [text];
  let decodedText = text;
  for (let count = 0; count < MAX_DECODINGS && decodedText.includes('%'); count += 1) {
    decodedText = decode(decodedText);
    forms.push(decodedText);
  }
  return forms.flatMap((form) => (form.includes('+') ? [form, form.replaceAll('+', ' ')] : form));
}

/** Returns true if a URL or path holds a card number, percent-encoded or not. */
export function holdsCardNumber(url: string): boolean {
  return decodedForms(url).some(containsCardNumber);
}

/** Decodes bytes: `decodeURIComponent` would throw at a bad escape and hide the digits next to it. */
function decode(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'));
}

/**
 * Refuses a card number before anything could repeat the URL. Two queries are exempt: that of a callback, because codes
 * and states may be long numbers, and that of a sign-in, which drops a return path with a card number itself. Calls of
 * declared routes are exempt as well: their parameters are ids and texts of the platform, and one long number in ten
 * passes for that of a card.
 */
export function cardNumberGuard(
  { basePath }: { basePath: string },
  isDeclaredCall: (req: Request) => boolean = () => false,
): RequestHandler {
  const uncheckedQueries = [`${basePath}/oauth/callback/`, `${basePath}/sign-in`];
  return (req, _res, next) => {
    const checkedText = uncheckedQueries.some((path) => req.path.startsWith(path)) ? req.path : req.originalUrl;
    if (!holdsCardNumber(checkedText) || isDeclaredCall(req)) return next();
    const code = req.path.startsWith(`${basePath}/bin/`) ? 'invalid_bin' : 'invalid_request';
    return next(
      new AppError(code, { detail: 'The URL holds more digits of a card than Gatehouse may see. Remove them.' }),
    );
  };
}
