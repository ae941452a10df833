/** Findings of the doctor: one for each requirement of a working app. */

export const CHECKS = {
  callback_listed: 'App lists the callback URL of this server',
  rule: 'The rule for who may sign in is readable',
  preset: 'Settings match the preset of the provider',
  discovery: 'Discovery can be read',
  tls: 'Connection is protected (TLS)',
  issuer: 'Issuer is the registered one',
  clock: 'Clocks agree',
  endpoints: 'Endpoints may be called',
  keys: 'Signing keys can be read',
  algorithms: 'Signature algorithms are acceptable',
  pkce: 'PKCE with S256',
  iss: 'The callback names its issuer',
  scopes: 'Scopes are known',
  callback_registered: 'Callback URL is registered at the provider',
  request: 'Authorization request is accepted',
  client_authentication: 'Client ID and secret are accepted',
  end_session: 'Sign-out at the provider',
  revocation: 'Revocation',
  backchannel_logout: 'Back-channel logout',
  refresh_token: 'Refresh token is issued',
  rotation: 'Refresh tokens rotate',
  lifetime: 'The lifetime of access tokens is stated',
  platform: 'Platform responds',
} as const;

export type CheckName = keyof typeof CHECKS;

export interface Finding {
  check: CheckName;
  result: 'passed' | 'failed' | 'unknown';
  /** The observation in one sentence, without secrets. */
  detail: string;
  /** What to do about it. */
  advice?: string;
  /** JSON pointer to the field of the registration that causes it. */
  pointer?: string;
}

export const problemsIn = (findings: readonly Finding[]): Finding[] =>
  findings.filter(({ result }) => result === 'failed');

/** Returns the findings that have no clear result but advice. */
export const warningsIn = (findings: readonly Finding[]): Finding[] =>
  findings.filter(({ result, advice }) => result === 'unknown' && advice !== undefined);

type FindingDetails = Pick<Finding, 'advice' | 'pointer'>;

export const passed = (check: CheckName, detail: string): Finding => ({ check, result: 'passed', detail });
export const failed = (check: CheckName, detail: string, details: FindingDetails): Finding => ({
  check,
  result: 'failed',
  detail,
  ...details,
});
export const unknown = (check: CheckName, detail: string, details: FindingDetails = {}): Finding => ({
  check,
  result: 'unknown',
  detail,
  ...details,
});
