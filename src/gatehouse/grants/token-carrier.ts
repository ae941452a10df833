/** Sends an access token: as a bearer token (RFC 6750), or with a DPoP proof for each call (RFC 9449). */

import type { Target } from '../../shared/outbound/outbound.ts';
import type { StreamedResponse } from '../../shared/outbound/streamed-body.ts';
import { type DpopKey, dpopProof } from '../../shared/provider/dpop.ts';
import { remembered } from '../../shared/remembered.ts';

export interface CarriedToken {
  accessToken: string;
  /** The private key for DPoP proofs; undefined for a bearer token. */
  dpopKey: DpopKey | undefined;
}

/** Sends the request to the target. @param headers alternating names and values */
type Send = (headers: readonly string[]) => Promise<StreamedResponse>;

const MAX_ORIGINS = 1_000;

export interface TokenCarrier {
  /** Sends the token once; with DPoP, a second time if the platform requires a new nonce. */
  send(token: CarriedToken, method: string, target: Target, send: Send): Promise<StreamedResponse>;
}

export function createTokenCarrier(): TokenCarrier {
  // The last nonce of each platform (RFC 9449 section 9). A proof without it costs a second call.
  const nonces = remembered<string>(MAX_ORIGINS);

  const rememberNonce = (origin: string, { headers }: StreamedResponse): string | undefined => {
    const nonce = headers['dpop-nonce'];
    if (typeof nonce !== 'string') return undefined;
    nonces.set(origin, nonce);
    return nonce;
  };

  const sendBound = async (accessToken: string, key: DpopKey, method: string, { origin, path }: Target, send: Send) => {
    const headersWith = async (nonce: string | undefined) => {
      const proof = await dpopProof(key, { method, url: origin + path, accessToken, nonce });
      return ['authorization', `DPoP ${accessToken}`, 'dpop', proof];
    };
    const lastNonce = nonces.get(origin);
    const response = await send(await headersWith(lastNonce));
    const newNonce = rememberNonce(origin, response);
    const needsNonce =
      response.statusCode === 401 && /error="?use_dpop_nonce/.test(String(response.headers['www-authenticate']));
    if (!needsNonce || newNonce === undefined || newNonce === lastNonce) return response;
    response.body.destroy(new Error('The request is sent again with the nonce that the platform requires.'));
    const retried = await send(await headersWith(newNonce));
    rememberNonce(origin, retried);
    return retried;
  };

  return {
    send: ({ accessToken, dpopKey }, method, target, send) =>
      dpopKey
        ? sendBound(accessToken, dpopKey, method, target, send)
        : send(['authorization', `Bearer ${accessToken}`]),
  };
}
