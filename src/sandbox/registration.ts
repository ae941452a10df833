/** Owns dynamic client registration (RFC 7591): who may, by an initial access token, and what is checked beyond the protocol. */
import { InvalidClientMetadata } from 'oidc-provider/lib/helpers/errors.js';
import type { Provider } from 'oidc-provider/lib/provider.js';
import { CALLBACK_FAULTS, callbackFaults } from './callback-rules.ts';

const POLICY = 'sandbox';

/** oidc-provider's registration policies; every initial access token of ours names the one there is. */
export const registrationPolicies = {
  [POLICY]: (_ctx: unknown, metadata: Record<string, unknown>): void => {
    const { redirect_uris: uris } = metadata;
    // What is no list of strings the library refuses itself.
    if (!Array.isArray(uris) || !uris.every((uri) => typeof uri === 'string')) return;
    const faults = callbackFaults(uris).flatMap((found, index) =>
      found.map((fault) => `redirect_uris: number ${index + 1} ${CALLBACK_FAULTS[fault]} (${fault})`),
    );
    if (faults.length > 0) throw new InvalidClientMetadata(faults.join('; '));
  },
};

/** Lets apps register until the sandbox stops. @param value the token, where it is to be a known one */
export function makeInitialAccessToken(provider: Provider, value?: string): Promise<string> {
  const made = value === undefined ? {} : { jti: value };
  return new provider.InitialAccessToken({ ...made, policies: [POLICY] }).save();
}
