/**
 * Sends content that is the same for every caller, compressed once per process. Other content must never be compressed:
 * together with input that it repeats, its length would reveal its secrets (BREACH).
 */
import { createHash } from 'node:crypto';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Request, Response } from 'express';
import { once } from '../once.ts';

/** A higher quality takes ten times as long for a tenth of the size. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 6 } };

export type SendCompressed = (req: Request, res: Response) => void;

/** Returns a function that sends the content, or 304 if the browser has it. The caller sets type and lifetime. */
export function compressed(content: Buffer): SendCompressed {
  const version = createHash('sha256').update(content).digest('base64url').slice(0, 16);
  const bodies = {
    br: once(() => brotliCompressSync(content, BROTLI)),
    gzip: once(() => gzipSync(content)),
    identity: () => content,
  };
  return (req, res) => {
    const encoding = req.acceptsEncodings('br', 'gzip', 'identity') || 'identity';
    res.vary('Accept-Encoding').set('ETag', `"${version}-${encoding}"`);
    if (encoding !== 'identity') res.set('Content-Encoding', encoding);
    res.send(bodies[encoding as keyof typeof bodies]());
  };
}
