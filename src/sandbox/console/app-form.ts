/** The form for a connected app: fields, validation, and conversion to an app and back. */
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

/** The fields have the order of the page, which is also the order of the faults. */
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
    noExpiresIn: ticked,
    restrictTokens: ticked,
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
  const { noExpiresIn, ...choices } = settings;
  return {
    name,
    redirectUris: callbackUrls,
    postLogoutRedirectUris: postLogoutUrls,
    scopes,
    tokenEndpointAuthMethod: method,
    ...(jwksUri === undefined ? {} : { jwksUri }),
    ...(backchannelLogoutUri === undefined ? {} : { backchannelLogoutUri }),
    settings: { ...choices, sendExpiresIn: !noExpiresIn },
  };
}

/** The form values of an app, or of the empty form. */
export function valuesOfApp(app?: RegisteredApp): FormValues<typeof appForm> {
  const { settings: chosen = {} } = app ?? {};
  const yes = (isTicked: boolean | undefined) => (isTicked ? 'yes' : '');
  return {
    name: app?.name ?? '',
    callbackUrls: (app?.redirectUris ?? []).join('\n'),
    scopes: app?.scopes ?? (app ? SCOPES : ['openid', 'profile', 'email', 'offline_access', 'platform_read_only']),
    method: app?.tokenEndpointAuthMethod ?? 'client_secret_basic',
    jwksUri: app?.jwksUri ?? '',
    postLogoutUrls: (app?.postLogoutRedirectUris ?? []).join('\n'),
    backchannelLogoutUri: app?.backchannelLogoutUri ?? '',
    refreshPolicy: chosen.refreshPolicy ?? '',
    graceSeconds: String(chosen.graceSeconds ?? ''),
    accessTokenSeconds: String(chosen.accessTokenSeconds ?? ''),
    refreshIdleSeconds: String(chosen.refreshIdleSeconds ?? ''),
    refreshMaxSeconds: String(chosen.refreshMaxSeconds ?? ''),
    tokenDelayMilliseconds: String(chosen.tokenDelayMilliseconds ?? ''),
    noExpiresIn: yes(chosen.sendExpiresIn === false),
    restrictTokens: yes(chosen.restrictTokens),
    requirePkce: yes(chosen.requirePkce || app?.tokenEndpointAuthMethod === 'none'),
    requirePushedRequests: yes(chosen.requirePushedRequests),
    requireDpop: yes(chosen.requireDpop),
    requireDpopNonce: yes(chosen.requireDpopNonce),
  };
}
