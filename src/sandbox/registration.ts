/** Dynamic client registration (RFC 7591): initial access tokens, and the check of callback URLs. */
import { InvalidClientMetadata } from 'oidc-provider/lib/helpers/errors.js';
import type { Provider } from 'oidc-provider/lib/provider.js';
import { CALLBACK_FAULTS, callbackFaults } from './callback-rules.ts';

const POLICY = 'sandbox';

/** The registration policies for oidc-provider. There is one, which every initial access token names. */
export const registrationPolicies = {
  [POLICY]: (_ctx: unknown, metadata: Record<string, unknown>): void => {
    const { redirect_uris: uris } = metadata;
    // The library refuses all values except a list of strings.
    if (!Array.isArray(uris) || !uris.every((uri) => typeof uri === 'string')) return;
    const faults = callbackFaults(uris).flatMap((found, index) =>
      found.map((fault) => `redirect_uris: number ${index + 1} ${CALLBACK_FAULTS[fault]} (${fault})`),
    );
    if (faults.length > 0) throw new InvalidClientMetadata(faults.join('; '));
  },
};

/** Creates a token that is valid until the sandbox stops. @param value the token; default: a random one */
export function createInitialAccessToken(provider: Provider, value?: string): Promise<string> {
  const id = value === undefined ? {} : { jti: value };
  return new provider.InitialAccessToken({ ...id, policies: [POLICY] }).save();
}
