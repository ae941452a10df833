/** The form for a connected app: its fields, their validation, and the conversion between form and app. */
import { z } from 'zod';
import { type FormValues, lines, ticked } from '../../shared/pages/form.ts';
import { appSettingsSchema } from '../app-settings.ts';
import type { RegisteredApp } from '../apps.ts';
import { AUTH_METHODS, type SandboxClient } from '../clients.ts';
import { SCOPES } from '../scopes.ts';
import { appScopesSchema, callbackUrlsSchema, webUrlSchema } from '../seed.ts';

export type AppFields = Omit<SandboxClient, 'clientId' | 'clientSecret'>;

const settings = appSettingsSchema.shape;
const optionalText = z
  .string()
  .trim()
  .transform((text) => text || undefined);
const number = optionalText.transform((text) => (text === undefined ? undefined : Number(text)));

export const appForm = z
  .object({
    name: z.string().trim().min(1, 'Enter a name.').max(100, 'Enter a name of at most 100 characters.'),
    callbackUrls: lines.pipe(callbackUrlsSchema),
    scopes: appScopesSchema,
    method: z.enum(AUTH_METHODS, 'Choose one from the list.'),
    jwksUri: optionalText.pipe(webUrlSchema.optional()),
    postLogoutUrls: lines.pipe(z.array(webUrlSchema)),
    backchannelLogoutUri: optionalText.pipe(webUrlSchema.optional()),
    refreshPolicy: optionalText.pipe(settings.refreshPolicy),
    graceSeconds: number.pipe(settings.graceSeconds),
    accessTokenSeconds: number.pipe(settings.accessTokenSeconds),
    refreshIdleSeconds: number.pipe(settings.refreshIdleSeconds),
    refreshMaxSeconds: number.pipe(settings.refreshMaxSeconds),
    tokenDelayMilliseconds: number.pipe(settings.tokenDelayMilliseconds),
    demandMaxAgeSeconds: number.pipe(settings.demandMaxAgeSeconds),
    noExpiresIn: ticked,
    restrictTokens: ticked,
    demandSecondFactor: ticked,
    requirePkce: ticked,
    requirePushedRequests: ticked,
    requireDpop: ticked,
    requireDpopNonce: ticked,
  })
  .refine(({ method, jwksUri }) => method !== 'private_key_jwt' || jwksUri !== undefined, {
    path: ['jwksUri'],
    error: 'private_key_jwt needs the URL of the public keys.',
  });

export function appOf(form: z.output<typeof appForm>): AppFields {
  const { name, callbackUrls, scopes, method, jwksUri, postLogoutUrls, backchannelLogoutUri, ...settings } = form;
  const { noExpiresIn, ...overrides } = settings;
  return {
    name,
    redirectUris: callbackUrls,
    postLogoutRedirectUris: postLogoutUrls,
    scopes,
    tokenEndpointAuthMethod: method,
    ...(jwksUri === undefined ? {} : { jwksUri }),
    ...(backchannelLogoutUri === undefined ? {} : { backchannelLogoutUri }),
    settings: { ...overrides, sendExpiresIn: !noExpiresIn },
  };
}

/** Returns the form values of an app; without an app, those of the form for a new one. */
export function valuesOfApp(app?: RegisteredApp): FormValues<typeof appForm> {
  const { settings: overrides = {} } = app ?? {};
  const valueOfTick = (isTicked: boolean | undefined) => (isTicked ? 'yes' : '');
  return {
    name: app?.name ?? '',
    callbackUrls: (app?.redirectUris ?? []).join('\n'),
    scopes: app?.scopes ?? (app ? SCOPES : ['openid', 'profile', 'email', 'offline_access', 'platform_read_only']),
    method: app?.tokenEndpointAuthMethod ?? 'client_secret_basic',
    jwksUri: app?.jwksUri ?? '',
    postLogoutUrls: (app?.postLogoutRedirectUris ?? []).join('\n'),
    backchannelLogoutUri: app?.backchannelLogoutUri ?? '',
    refreshPolicy: overrides.refreshPolicy ?? '',
    graceSeconds: String(overrides.graceSeconds ?? ''),
    accessTokenSeconds: String(overrides.accessTokenSeconds ?? ''),
    refreshIdleSeconds: String(overrides.refreshIdleSeconds ?? ''),
    refreshMaxSeconds: String(overrides.refreshMaxSeconds ?? ''),
    tokenDelayMilliseconds: String(overrides.tokenDelayMilliseconds ?? ''),
    demandMaxAgeSeconds: String(overrides.demandMaxAgeSeconds ?? ''),
    noExpiresIn: valueOfTick(overrides.sendExpiresIn === false),
    restrictTokens: valueOfTick(overrides.restrictTokens),
    demandSecondFactor: valueOfTick(overrides.demandSecondFactor),
    requirePkce: valueOfTick(overrides.requirePkce || app?.tokenEndpointAuthMethod === 'none'),
    requirePushedRequests: valueOfTick(overrides.requirePushedRequests),
    requireDpop: valueOfTick(overrides.requireDpop),
    requireDpopNonce: valueOfTick(overrides.requireDpopNonce),
  };
}
