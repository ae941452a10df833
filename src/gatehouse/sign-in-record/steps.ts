/** The steps of a sign-in, with their words for an administrator. */

/** In the order of a sign-in. */
export const STEPS = {
  started: 'Started',
  sent: 'Sent to the identity provider',
  came_back: 'Came back from the provider',
  state: 'State is genuine and has not expired',
  cookie: 'Same browser as at the start',
  redirect_uri: 'Callback URL is that of the app',
  authorization_response: 'Response is genuine (state, iss)',
  granted: 'User and provider consented',
  token_endpoint: 'Tokens received',
  id_token_form: 'ID token: form',
  id_token_times: 'ID token: times',
  id_token_issuer: 'ID token: issuer',
  id_token_audience: 'ID token: audience',
  id_token_nonce: 'ID token: nonce',
  id_token_signature: 'ID token: signature',
  claims: 'User identified',
  permitted: 'User may sign in',
  session: 'Session saved',
  connection: 'Connection saved',
} as const;

export type StepName = keyof typeof STEPS;

/** Words for a step that failed. */
const FAILED_STEPS: Readonly<Record<StepName, string>> = {
  started: 'Not started',
  sent: 'Not sent to the identity provider',
  came_back: 'Did not come back from the provider',
  state: 'State is not genuine, or has expired',
  cookie: 'Not the browser that started the sign-in',
  redirect_uri: 'Callback URL is not that of the app',
  authorization_response: 'Response is not genuine (state, iss)',
  granted: 'The user or the provider did not consent',
  token_endpoint: 'No usable tokens received',
  id_token_form: 'ID token: form is wrong',
  id_token_times: 'ID token: times are wrong',
  id_token_issuer: 'ID token: issuer is wrong',
  id_token_audience: 'ID token: audience is wrong',
  id_token_nonce: 'ID token: nonce is wrong',
  id_token_signature: 'ID token: signature is wrong',
  claims: 'User not identified',
  permitted: 'User may not sign in',
  session: 'Session not saved',
  connection: 'Connection not saved',
};

export const STEP_NAMES = Object.keys(STEPS) as StepName[];

export interface Step {
  name: StepName;
  /** Milliseconds since the epoch. */
  at: number;
  ok: boolean;
  /** Never a secret. */
  detail?: string | undefined;
}

interface StepResult {
  name: StepName;
  text: string;
  result: 'passed' | 'failed' | 'not_reached';
  /** Milliseconds since the epoch. */
  at: number | undefined;
  detail: string | undefined;
}

/** A callback that is opened again repeats steps: the last result counts. */
export function stepResults(steps: readonly Step[]): StepResult[] {
  return STEP_NAMES.map((name) => {
    const step = steps.findLast((candidate) => candidate.name === name);
    const result = step === undefined ? 'not_reached' : step.ok ? 'passed' : 'failed';
    const text = result === 'failed' ? FAILED_STEPS[name] : STEPS[name];
    return { name, text, result, at: step?.at, detail: step?.detail };
  });
}
