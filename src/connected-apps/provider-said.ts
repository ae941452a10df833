/** Owns what a provider answered to a call, such as a revocation, as it may be told: by status and error code, never by its own words. Pure. */

export interface ProviderSaid {
  /** Of the answer, where one came. */
  status?: number | undefined;
  /** The OAuth error code of the answer, or a fixed word for why there was none. */
  error?: string | undefined;
}

/** `unsupported`: the provider has no revocation endpoint. `unconfirmed`: it did not say that it revoked. */
export type RevocationOutcome = 'revoked' | 'unsupported' | 'unconfirmed';

export interface RevocationAnswer {
  outcome: RevocationOutcome;
  /** Left out where it was not asked. */
  said?: ProviderSaid;
}

/** Such as "status 400, invalid_client" or "no answer: timeout". */
export function saidWords({ status, error }: ProviderSaid = {}): string {
  const why = error?.replaceAll('_', ' ');
  if (status === undefined) return why === undefined ? 'no answer' : `no answer: ${why}`;
  return error === undefined ? `status ${status}` : `status ${status}, ${error}`;
}
