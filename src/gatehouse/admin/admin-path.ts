/** Accepts paths of administration pages from links and forms. */
import type { PublicUrl } from '../../shared/config/rules.ts';
import { localPath } from '../../shared/http/return-path.ts';

/** Returns the path if it is below `/admin/`, or undefined for any other address. */
export function adminPath(requested: unknown, publicUrl: Pick<PublicUrl, 'origin' | 'basePath'>): string | undefined {
  const path = localPath(requested, publicUrl);
  return path?.startsWith(`${publicUrl.basePath}/admin/`) ? path : undefined;
}
