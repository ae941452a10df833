/** Names a requested return address that is not allowed (R70), for the log and the record of the sign-in. */
import { holdsCardNumber } from '../../shared/http/card-numbers.ts';
import { type LocalSite, localPath, MAX_PATH_LENGTH } from '../../shared/http/return-path.ts';
import { scrubSecrets } from '../../shared/observability/secret-texts.ts';
import { cutText } from '../../shared/text.ts';
import { nearestUrl } from './nearest-url.ts';

/** Why the browser will not return to where a page asked for. */
export interface RefusedReturn {
  /** The address without query, fragment, user name and secrets. */
  requested: string;
  reason: string;
  /** Where the browser goes instead. */
  used: string;
}

const MAX_LENGTH = 120;
/** Bounds the work for a request without a session. */
const MAX_COMPARED_LENGTH = 500;
const LINES_A_MINUTE = 20;

/**
 * Returns undefined if nothing was requested, or the address is allowed.
 * @param returnUrls the return URLs of the app; undefined where only local paths are allowed
 */
export function refusedReturn(
  requested: string | undefined,
  { origin, home: used }: LocalSite & { home: string },
  returnUrls: readonly string[] | undefined,
): RefusedReturn | undefined {
  if (!requested || returnUrls?.includes(requested) || localPath(requested, { origin }) !== undefined) return undefined;
  return { requested: shown(requested), reason: reasonOf(requested, origin, returnUrls), used };
}

/** One sentence for the record of the sign-in. */
export const refusedReturnText = ({ requested, reason, used }: RefusedReturn): string =>
  `return_to "${requested}" is not allowed, so the browser returns to ${used}: ${reason}`;

/** Limits how often a refused address is logged in each process, because any client can send any number of them. */
export function createRefusalLog(log: (facts: RefusedReturn & LoggedFacts) => void, clock: () => number) {
  let minute = 0;
  let count = 0;
  return (facts: RefusedReturn & LoggedFacts): void => {
    const now = Math.floor(clock() / 60_000);
    if (now !== minute) [minute, count] = [now, 0];
    count += 1;
    if (count <= LINES_A_MINUTE) log(facts);
  };
}

interface LoggedFacts {
  app?: string | undefined;
  route: string;
  origin?: { requestId?: string | undefined } | undefined;
}

function reasonOf(requested: string, origin: string, returnUrls: readonly string[] | undefined): string {
  if (holdsCardNumber(requested)) return 'it has digits like those of a card number.';
  const url = URL.parse(requested);
  if (!url) {
    if (requested.length > MAX_PATH_LENGTH) return `it is longer than ${MAX_PATH_LENGTH} characters.`;
    return 'it is neither an absolute URL nor a local path, which begins with one "/".';
  }
  if (url.origin === origin) return 'write an address of this host as a path, from "/" on.';
  if (returnUrls === undefined) return 'only a local path is allowed here.';
  if (returnUrls.length === 0) return 'the app has no return URLs.';
  const compared = printable(cutText(requested, MAX_COMPARED_LENGTH));
  return `it is not one of the return URLs of the app, of which ${nearestUrl(compared, returnUrls)}.`;
}

/** Long parts of a path are left out, since they may be secret, and all before an `@`, which may be a password. */
function shown(requested: string): string {
  const [address = ''] = requested.split(/[?#]/, 1);
  const parts = address.split('/').map((part) => part.slice(part.lastIndexOf('@') + 1));
  const plain = scrubSecrets(printable(parts.join('/'))).replaceAll(/[\w=+%-]{33,}/g, '…');
  const hasMore = address.length < requested.length;
  return cutText(plain, MAX_LENGTH) + (hasMore ? '?…' : '');
}

/** Without control characters and others that would change how the text around them is shown. */
const printable = (text: string) => text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd').toWellFormed();
