/**
 * The parts of a provider's response that may be shown, for calls such as a revocation: status and error code. Pure.
 */

export interface ProviderReply {
  /** Undefined if there was no response. */
  status?: number | undefined;
  /** The OAuth error code of the response, or a fixed code for why there was none. */
  error?: string | undefined;
  /** When the provider may be called again, if it says so. */
  retryAfterSeconds?: number | undefined;
  /** Why there was no response, with the host; for administrators. */
  detail?: string | undefined;
}

/** `unsupported`: the provider has no revocation endpoint. `unconfirmed`: it did not confirm the revocation. */
export type RevocationOutcome = 'revoked' | 'unsupported' | 'unconfirmed';

export interface RevocationResult {
  outcome: RevocationOutcome;
  /** Left out if the provider was not called. */
  reply?: ProviderReply | undefined;
}

/** For example "status 400, invalid_client" or "no response: idp.example:443 refused the connection". */
export function describeReply({ status, error, detail }: ProviderReply = {}): string {
  const cause = detail ?? error?.replaceAll('_', ' ');
  if (status === undefined) return cause === undefined ? 'no response' : `no response: ${cause}`;
  return error === undefined ? `status ${status}` : `status ${status}, ${error}`;
}
