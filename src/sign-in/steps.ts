/** Owns the steps of a sign-in, in their order, as its record tells them. Pure. */
import type { SignInFailure } from './failure.ts';

/** Each step with its words. The order is that of the course. */
export const STEPS = {
  started: 'Started here',
  sent: 'Sent to the identity provider',
  came_back: 'Came back from the provider',
  state: 'State is ours, and not too old',
  cookie: 'The browser that started it came back',
  redirect_uri: 'Callback URL the same, character by character',
  answer: 'The provider’s answer can be trusted (state, iss)',
  token_endpoint: 'Token endpoint gave tokens',
  id_token_form: 'ID token can be read',
  id_token_times: 'ID token: times',
  id_token_issuer: 'ID token: issuer',
  id_token_audience: 'ID token: for this client',
  id_token_nonce: 'ID token: nonce',
  id_token_signature: 'ID token: signature',
  claims: 'Who it is',
  permitted: 'May sign in here',
  connection: 'Connection kept',
  session: 'Session made',
} as const;

export type StepName = keyof typeof STEPS;
export const STEP_NAMES = Object.keys(STEPS) as StepName[];

export interface Step {
  name: StepName;
  /** Milliseconds since the epoch. */
  at: number;
  ok: boolean;
  /** What was seen; never a secret. */
  detail?: string | undefined;
}

/** The steps of one request as they are taken. */
export interface Trace {
  steps: readonly Step[];
  pass(name: StepName, detail?: string): void;
  /** All from the one to the other, both included: checks that are made in one go. */
  passAll(from: StepName, to: StepName): void;
  fail(name: StepName, detail?: string): void;
}

export function createTrace(clock: () => number): Trace {
  const steps: Step[] = [];
  const add = (name: StepName, ok: boolean, detail?: string) => {
    steps.push({ name, at: clock(), ok, ...(detail === undefined ? {} : { detail: detail.slice(0, 500) }) });
  };
  return {
    steps,
    pass: (name, detail) => add(name, true, detail),
    passAll(from, to) {
      const reached = steps.map(({ name }) => name);
      for (const name of STEP_NAMES.slice(STEP_NAMES.indexOf(from), STEP_NAMES.indexOf(to) + 1)) {
        if (!reached.includes(name)) add(name, true);
      }
    },
    fail: (name, detail) => add(name, false, detail),
  };
}

/** The step at which each failure shows; a token answer that was refused names its own. */
export const FAILED_AT: Readonly<Record<SignInFailure, StepName>> = {
  parameter_doubled: 'came_back',
  state_missing: 'state',
  state_invented: 'state',
  state_expired: 'state',
  cookie_missing: 'cookie',
  state_used: 'state',
  other_app: 'redirect_uri',
  registration_changed: 'redirect_uri',
  other_user: 'cookie',
  answer_refused: 'answer',
  access_denied: 'answer',
  provider_refused: 'answer',
  code_refused: 'token_endpoint',
  token_answer_refused: 'id_token_form',
  misconfigured: 'token_endpoint',
  unusable_app: 'redirect_uri',
  disabled_app: 'started',
  provider_unavailable: 'token_endpoint',
  not_permitted: 'permitted',
  step_up_refused: 'permitted',
};

/** Where two texts differ first, so that nobody has to compare them by eye. */
export function differenceOf(sent: string, registered: string): string | undefined {
  if (sent === registered) return undefined;
  const [left, right] = [[...sent], [...registered]];
  const at = left.findIndex((character, place) => character !== right[place]);
  const place = at === -1 ? left.length : at;
  const shown = (characters: string[]) => (characters[place] === undefined ? 'its end' : `"${characters[place]}"`);
  return `character ${place + 1} is ${shown(left)} where the registered one has ${shown(right)}`;
}
