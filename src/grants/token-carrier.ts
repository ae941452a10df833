/** Owns how an access token travels: as a bearer token, or bound to its key with a proof for each call (RFC 6750, RFC 9449). */
import { type DpopKey, dpopProof } from '../connected-apps/dpop.ts';
import type { Target } from '../outbound/outbound.ts';
import type { StreamedAnswer } from '../outbound/streamed-answer.ts';

export interface CarriedToken {
  accessToken: string;
  /** Undefined for a bearer token. */
  dpopKey: DpopKey | undefined;
}

/** GETs the target with these headers (names and values by turns). */
export type Send = (headers: readonly string[]) => Promise<StreamedAnswer>;

export interface TokenCarrier {
  send(token: CarriedToken, target: Target, send: Send): Promise<StreamedAnswer>;
}

const MOST_ORIGINS = 1_000;

export function createTokenCarrier(): TokenCarrier {
  // What each platform asked for last; a proof without it costs one more call.
  const nonces = new Map<string, string>();

  const noteNonce = (origin: string, { headers }: StreamedAnswer): string | undefined => {
    const nonce = headers['dpop-nonce'];
    if (typeof nonce !== 'string') return undefined;
    if (nonces.size >= MOST_ORIGINS) nonces.clear();
    nonces.set(origin, nonce);
    return nonce;
  };

  const sendBound = async (accessToken: string, key: DpopKey, { origin, path }: Target, send: Send) => {
    const headersWith = async (nonce: string | undefined) => [
      ...['authorization', `DPoP ${accessToken}`],
      ...['dpop', await dpopProof(key, { method: 'GET', url: origin + path, accessToken, nonce })],
    ];
    const sent = nonces.get(origin);
    const answer = await send(await headersWith(sent));
    const asked = noteNonce(origin, answer);
    const isAsked =
      answer.statusCode === 401 && /error="?use_dpop_nonce/.test(String(answer.headers['www-authenticate']));
    if (!isAsked || asked === undefined || asked === sent) return answer;
    answer.body.destroy(new Error('The same is sent once more with the nonce that was asked for.'));
    const again = await send(await headersWith(asked));
    noteNonce(origin, again);
    return again;
  };

  return {
    send: ({ accessToken, dpopKey }, target, send) =>
      dpopKey ? sendBound(accessToken, dpopKey, target, send) : send(['authorization', `Bearer ${accessToken}`]),
  };
}
