/** The JSON of connected apps: input, and output, which never contains the secret. */
import { z } from 'zod';
import { containsCardNumber } from '../../../shared/observability/card-numbers.ts';
import {
  type ConnectedApp,
  type ConnectedAppRegistration,
  connectedAppSchema,
  isUsable,
  providerUrls,
} from '../../../shared/provider/connected-app.ts';
import { ENDPOINT_MEMBERS, type EndpointName } from '../../../shared/provider/provider-metadata.ts';
import { isoOrNull, isoTime } from '../../../shared/time.ts';
import type { RegisteredApp } from '../../connected-apps/app-registry.ts';
import { MISSING_SECRET, needsSecret } from '../../connected-apps/change-rules.ts';
import { CHECKS, type CheckName, problemsIn, warningsIn } from '../../connected-apps/finding.ts';
import { signInClaimWarning } from '../../connected-apps/registration-rules.ts';
import type { LastCheck } from '../../connected-apps/scheduled-checks.ts';
import { namedMembers } from '../named-members.ts';

const clientSecret = z.string().min(1).max(2000).optional();
/** The name is shown on pages, and sent to the provider by dynamic client registration. */
const name = connectedAppSchema.shape.name.refine((text) => !containsCardNumber(text), {
  error: 'Remove the card number.',
  params: { rule: 'card_number' },
});

/** The fields of a new app, in the format of `CONNECTED_APPS_FILE`, but with the secret itself. */
export const newAppFields = connectedAppSchema.extend({ name, clientSecret: clientSecret.describe('write-only') });

export const newApp = newAppFields.refine((app) => app.clientSecret !== undefined || !needsSecret(app), {
  path: ['clientSecret'],
  error: MISSING_SECRET.detail,
  params: { rule: MISSING_SECRET.rule },
  // Together with the faults of other fields, and not only after them.
  when: ({ value }) => typeof value === 'object' && value !== null,
});

/** A change of a registered app by its form, which has every field. Without a secret, the stored one is kept. */
export const changedAppOfForm = connectedAppSchema.extend({
  id: connectedAppSchema.shape.id.optional().describe('must equal the id in the path; optional'),
  name,
  clientSecret: clientSecret.describe('write-only; if omitted, the stored secret is kept'),
  version: z.int().describe('the version that was read: a newer one is not overwritten'),
});

/** A change by the API. */
export const changedApp = changedAppOfForm.extend(namedMembers(changedAppOfForm.shape));

export type NewApp = z.output<typeof newApp>;
export type ChangedApp = z.output<typeof changedAppOfForm>;

const findingJson = z.object({
  check: z.enum(Object.keys(CHECKS) as [CheckName, ...CheckName[]]),
  title: z.string(),
  result: z.enum(['passed', 'failed', 'unknown']),
  detail: z.string(),
  advice: z.string().optional(),
  pointer: z.string().optional().describe('the field of the registration that causes it'),
});

export const findingsJson = z.array(findingJson);

const lastCheckJson = z.object({
  at: z.iso.datetime(),
  outdated: z.boolean().describe('true if the app has changed since this check'),
  failures: z.int().describe('the number of checks that failed'),
  firstFailure: z.string().nullable().describe('the first of them, as a sentence'),
  warnings: z.int().describe('the number of checks that could not tell, but give advice'),
  findings: findingsJson.optional().describe('only for a single app, not in lists'),
});

export type LastCheckView = z.output<typeof lastCheckJson>;

const nullableTime = z.iso.datetime().nullable();

export const appJson = z.object({
  ...connectedAppSchema.shape,
  // The rules for input do not apply here: they may have become stricter since the app was stored.
  callbackUrls: z.array(z.string()),
  returnUrls: z.array(z.string()),
  source: z.enum(['file', 'administration']).describe('apps of the file cannot be changed by the API'),
  version: z.int().nullable(),
  hasClientSecret: z.boolean(),
  clientSecretSetAt: nullableTime,
  clientSecretExpiresAt: nullableTime.describe('if the provider specified it'),
  createdAt: nullableTime,
  changedAt: nullableTime,
  callbackUrl: z
    .string()
    .describe("this Gatehouse's callback URL for the app; must be in `callbackUrls` and registered at the provider"),
  postLogoutRedirectUri: z.string().describe('to register at the provider'),
  backchannelLogoutUri: z.string().describe('to register at the provider'),
  unusable: z.string().nullable().describe('why the app cannot be used'),
  signInClaimWarning: z
    .string()
    .nullable()
    .describe('if the claim of `signIn` is probably meant as a path, but is no JSON Pointer'),
  lastCheck: lastCheckJson.nullable().describe('the last check of this app, by schedule or by an administrator'),
  connections: z.int().optional().describe('how many users are connected; only for a single app, not in lists'),
  ineffectiveEndpoints: z
    .array(z.enum(Object.keys(ENDPOINT_MEMBERS) as [EndpointName, ...EndpointName[]]))
    .optional()
    .describe('members of `endpoints` without effect, since discovery names others; only for a single app'),
  missingScopes: z
    .object({
      scopes: z.array(z.string()).describe('the planned scopes that the app does not have yet'),
      connections: z.int().describe('how many connections would lack one of them'),
      exact: z
        .boolean()
        .describe('false if the app has more than 1,000 connections: only the newest 1,000 were counted'),
    })
    .optional()
    .describe('with `scopes` in the query: what would be missing if the app had these scopes'),
});

export type AppView = z.output<typeof appJson>;

/** Returns the JSON of an app. @param stored undefined if the app comes from `CONNECTED_APPS_FILE` */
export function appView(
  app: ConnectedApp,
  stored: RegisteredApp | undefined,
  publicHref: string,
): Omit<AppView, 'lastCheck'> {
  const { clientSecret: secret, ...registration } = app;
  const urls = providerUrls(app.id, publicHref);
  return {
    ...registration,
    source: stored ? 'administration' : 'file',
    version: stored?.version ?? null,
    hasClientSecret: secret !== undefined,
    clientSecretSetAt: isoOrNull(stored?.secretSetAt),
    clientSecretExpiresAt: isoOrNull(stored?.secretExpiresAt),
    createdAt: isoOrNull(stored?.createdAt),
    changedAt: isoOrNull(stored?.changedAt),
    callbackUrl: urls.callback,
    postLogoutRedirectUri: urls.postLogout,
    backchannelLogoutUri: urls.backchannelLogout,
    signInClaimWarning: signInClaimWarning(app) ?? null,
    unusable: isUsable(app, publicHref) ? null : app.disabled ? DISABLED : NOT_REGISTERED,
  };
}

/** Returns the registration, without the members that only the view has. */
export function registrationIn(app: AppView): ConnectedAppRegistration {
  const names = Object.keys(connectedAppSchema.shape);
  return Object.fromEntries(Object.entries(app).filter(([name]) => names.includes(name))) as ConnectedAppRegistration;
}

export function lastCheckView({ at, findings }: LastCheck, outdated = false): Required<LastCheckView> {
  const failures = problemsIn(findings);
  return {
    at: isoTime(at),
    outdated,
    failures: failures.length,
    firstFailure: failures[0]?.detail ?? null,
    warnings: warningsIn(findings).length,
    findings: findings.map((finding) => ({ ...finding, title: CHECKS[finding.check] })),
  };
}

const DISABLED = 'The app is disabled. Sign-ins and calls with it are refused.';

const NOT_REGISTERED =
  'The callback URL of this Gatehouse is not among the callback URLs of the app. Add it here and at the provider.';
