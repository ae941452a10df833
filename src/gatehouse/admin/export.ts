/** Streams a file, after writing an audit entry. */
import type { Request, Response } from 'express';
import { AppError } from '../../shared/errors.ts';
import { sendLines } from '../../shared/http/send-lines.ts';
import { refuseSpeculative } from '../../shared/http/speculative.ts';
import { actorOf } from '../../shared/sessions/actor.ts';
import { refuseOtherSites } from '../../shared/sessions/csrf.ts';
import type { AuditEntry } from '../audit/kinds.ts';
import type { AuditTrail } from '../audit/trail.ts';

interface ExportedFile {
  trail: Pick<AuditTrail, 'append'>;
  entry: Pick<AuditEntry, 'event' | 'target' | 'facts'>;
  /** The name of the file. If `type` is missing, its extension determines the media type. */
  name: string;
  type?: string;
  lines: AsyncIterable<string>;
}

/**
 * Writes the audit entry, then sends the file.
 * @throws AppError `method_not_allowed` for HEAD, `not_prefetched` for a browser that loads the file ahead, and
 *   `csrf_failed` for links on other sites: none of them may write an entry
 */
export async function sendExport(req: Request, res: Response, file: ExportedFile): Promise<void> {
  const { trail, entry, name, type = name, lines } = file;
  if (req.method === 'HEAD') throw new AppError('method_not_allowed', { headers: { Allow: 'GET' } });
  refuseSpeculative(req);
  refuseOtherSites(req);
  await trail.append({ ...entry, ...actorOf(req) });
  res.type(type).set('Content-Disposition', `attachment; filename="${name}"`);
  await sendLines(res, lines);
}
