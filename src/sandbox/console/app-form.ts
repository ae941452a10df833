/** Owns the form for a connected app: its fields, how they are checked, and what they make of the app. */
import type { Request } from 'express';
import { z } from 'zod';
import { appSettingsSchema } from '../app-settings.ts';
import type { RegisteredApp } from '../apps.ts';
import { AUTH_METHODS, type SandboxClient } from '../clients.ts';
import { type FieldFaults, faultsByField, fieldList, fields, lines } from '../form-fields.ts';
import { SCOPES } from '../scopes.ts';
import { appScopesSchema, callbackUrlsSchema } from '../seed.ts';

export type AppFields = Omit<SandboxClient, 'clientId' | 'clientSecret'>;

export type ReadAppForm = { app: AppFields; faults?: never } | { app?: never; faults: FieldFaults };

const NUMBERS = [
  'accessTokenSeconds',
  'refreshIdleSeconds',
  'refreshMaxSeconds',
  'graceSeconds',
  'tokenDelayMilliseconds',
] as const;

const webUrl = z
  .string()
  .refine((url) => /^https?:$/.test(URL.parse(url)?.protocol ?? ''), 'must be an http: or https: URL');

const formSchema = z
  .object({
    name: z.string().trim().min(1, 'needs a name').max(100, 'must be 100 characters or less'),
    callbackUrls: callbackUrlsSchema,
    postLogoutUrls: z.array(webUrl),
    scopes: appScopesSchema,
    method: z.enum(AUTH_METHODS, 'must be one of the list'),
    jwksUri: webUrl.optional(),
    backchannelLogoutUri: webUrl.optional(),
  })
  .extend(appSettingsSchema.shape)
  .superRefine(({ method, jwksUri }, ctx) => {
    if (method === 'private_key_jwt' && jwksUri === undefined) {
      ctx.addIssue({
        code: 'custom',
        path: ['jwksUri'],
        message: 'is needed for an app that proves itself with a key',
      });
    }
  });

export function readAppForm(req: Request): ReadAppForm {
  const read = formSchema.safeParse(inputOf(req));
  if (!read.success) return { faults: faultsByField(namedUrls(read.error)) };
  const { name, callbackUrls, postLogoutUrls, scopes, method, jwksUri, backchannelLogoutUri, ...settings } = read.data;
  return {
    app: {
      name,
      redirectUris: callbackUrls,
      postLogoutRedirectUris: postLogoutUrls,
      scopes,
      tokenEndpointAuthMethod: method,
      ...(jwksUri === undefined ? {} : { jwksUri }),
      ...(backchannelLogoutUri === undefined ? {} : { backchannelLogoutUri }),
      settings,
    },
  };
}

/** What the form shows again after a fault, as it was typed. */
export function typedFields(req: Request): Record<string, unknown> {
  return { ...fieldsOf(undefined), ...fields(req), scopes: fieldList(req, 'scopes') };
}

/** What the form shows for an app that there is. */
export function fieldsOf(app: RegisteredApp | undefined): Record<string, unknown> {
  const { settings = {} } = app ?? {};
  const numbers = NUMBERS.map((name) => [name, settings[name] === undefined ? '' : String(settings[name])]);
  return {
    name: app?.name ?? '',
    callbackUrls: (app?.redirectUris ?? []).join('\n'),
    postLogoutUrls: (app?.postLogoutRedirectUris ?? []).join('\n'),
    scopes: app?.scopes ?? (app ? SCOPES : ['openid', 'profile', 'email', 'offline_access', 'platform_read_only']),
    method: app?.tokenEndpointAuthMethod ?? 'client_secret_basic',
    jwksUri: app?.jwksUri ?? '',
    backchannelLogoutUri: app?.backchannelLogoutUri ?? '',
    refreshPolicy: settings.refreshPolicy ?? '',
    noExpiresIn: settings.sendExpiresIn === false ? 'on' : '',
    requirePushedRequests: settings.requirePushedRequests ? 'on' : '',
    requireDpop: settings.requireDpop ? 'on' : '',
    requireDpopNonce: settings.requireDpopNonce ? 'on' : '',
    ...Object.fromEntries(numbers),
  };
}

function inputOf(req: Request): Record<string, unknown> {
  const form = fields(req);
  const filled = (name: string) => (form[name]?.trim() ? { [name]: form[name].trim() } : {});
  const numbers = NUMBERS.filter((name) => form[name]?.trim()).map((name) => [name, Number(form[name])]);
  return {
    name: form.name ?? '',
    callbackUrls: lines(form.callbackUrls),
    postLogoutUrls: lines(form.postLogoutUrls),
    scopes: fieldList(req, 'scopes'),
    method: form.method,
    ...filled('jwksUri'),
    ...filled('backchannelLogoutUri'),
    ...filled('refreshPolicy'),
    ...(form.noExpiresIn ? { sendExpiresIn: false } : {}),
    ...(form.requirePushedRequests ? { requirePushedRequests: true } : {}),
    ...(form.requireDpop ? { requireDpop: true } : {}),
    ...(form.requireDpopNonce ? { requireDpopNonce: true } : {}),
    ...Object.fromEntries(numbers),
  };
}

/** Says of which line a fault is told. */
function namedUrls(error: z.ZodError): z.ZodError {
  const issues = error.issues.map((issue) => {
    const line = issue.path[1];
    return typeof line === 'number' ? { ...issue, message: `Line ${line + 1} ${issue.message}` } : issue;
  });
  return new z.ZodError(issues);
}
