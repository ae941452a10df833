/** Owns the refusal of addresses that hold a card number: redirects and forms would carry it on (R85, R86). */
import type { RequestHandler } from 'express';
import { AppError } from '../errors.ts';

/** How often a text may be percent-encoded over and still be read. */
const MOST_DECODINGS = 3;

/** The text as it stands, and as whoever decodes it, once or more often, would read it. */
export function readings(text: string): string[] {
  const all = [text];
  let current = text;
  for (let count = 0; count < MOST_DECODINGS && current.includes('%'); count += 1) {
    current = decode(current);
    all.push(current);
  }
  return all.flatMap((reading) => (reading.includes('+') ? [reading, reading.replaceAll('+', ' ')] : reading));
}

/** Byte by byte, so that one bad escape hides nothing beside it. */
function decode(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'));
}

/**
 * Runs before anything that could repeat the address. The parameters of a callback pass, since codes and states may be long
 * numbers; so do those of a sign-in, which forgets such a return path by itself.
 * @param parts `isClean`: false for texts that hold a card number
 */
export function cardNumberGuard(parts: { isClean: (text: string) => boolean; basePath: string }): RequestHandler {
  const { isClean, basePath } = parts;
  const ownJudges = [`${basePath}/oauth/callback/`, `${basePath}/sign-in`];
  return (req, _res, next) => {
    const judged = ownJudges.some((path) => req.path.startsWith(path)) ? req.path : req.originalUrl;
    if (readings(judged).every(isClean)) return next();
    const code = req.path.startsWith(`${basePath}/bin/`) ? 'invalid_bin' : 'invalid_request';
    return next(
      new AppError(code, { detail: 'The address holds more digits of a card than we may see. Leave them out.' }),
    );
  };
}
