/** A provider's response to a call such as a revocation, as far as it may be shown: status and error code. Pure. */

export interface ProviderReply {
  /** Undefined where there was no response. */
  status?: number | undefined;
  /** The OAuth error code of the response, or a fixed word for why there was none. */
  error?: string | undefined;
  /** Why there was no response, with the host; for administrators. */
  words?: string | undefined;
}

/** `unsupported`: the provider has no revocation endpoint. `unconfirmed`: it did not confirm the revocation. */
export type RevocationOutcome = 'revoked' | 'unsupported' | 'unconfirmed';

export interface RevocationResult {
  outcome: RevocationOutcome;
  /** Left out where the provider was not called. */
  reply?: ProviderReply | undefined;
}

/** Such as "status 400, invalid_client" or "no response: idp.example:443 refused the connection". */
export function describeReply({ status, error, words }: ProviderReply = {}): string {
  const why = words ?? error?.replaceAll('_', ' ');
  if (status === undefined) return why === undefined ? 'no response' : `no response: ${why}`;
  return error === undefined ? `status ${status}` : `status ${status}, ${error}`;
}
