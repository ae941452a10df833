/** Reads `CONNECTED_APPS_FILE`: reports all faults at once, and reads secrets from variables and files. */
import { z } from 'zod';
import { ADVICE, type InputFault, inputFaults } from '../../shared/config/input-faults.ts';
import type { ConfigSource } from '../../shared/config/setting.ts';
import { fileFault } from '../../shared/file-fault.ts';
import { isObject, parseJson } from '../../shared/json.ts';
import type { AddressPolicy } from '../../shared/outbound/address-policy.ts';
import { type ConnectedApp, connectedAppSchema } from '../../shared/provider/connected-app.ts';
import {
  addressFault,
  calledUrls,
  coherenceFaults,
  ownCallbackFaults,
  type PartialRegistration,
} from './registration-rules.ts';

export const secretSource = z.union([
  z.strictObject({ env: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/) }),
  z.strictObject({ file: z.string().min(1) }),
]);

export const fileEntry = connectedAppSchema.extend({
  clientSecret: z
    .custom<z.output<typeof secretSource>>((value) => secretSource.safeParse(value).success, {
      message: 'Use {"env": "NAME"} or {"file": "PATH"}: this file must not contain the secret itself.',
    })
    .optional(),
});
const anyFields = z.object(fileEntry.shape).partial();
type AnyFields = z.output<typeof anyFields>;

export interface ParsedApps {
  apps: ConnectedApp[];
  /** One sentence for each fault: it names the app, the field and the remedy, but no secret. */
  faults: string[];
  /** Ids of the entries with faults; undefined for an entry without a readable id. */
  faultyIds: (string | undefined)[];
}

export interface Deployment {
  /** Checks the URLs that Gatehouse would call; without it they are checked only at each call. */
  policy?: AddressPolicy | undefined;
  /** `PUBLIC_URL`, for rules about its own callback URLs. */
  publicHref?: string | undefined;
}

/**
 * @param text the file's content
 * @param source where secrets are read from
 */
export function parseConnectedApps(text: string, source: ConfigSource, deployment: Deployment = {}): ParsedApps {
  const entries = parseJson(text);
  if (entries === undefined)
    return unreadable('CONNECTED_APPS_FILE is not valid JSON: check commas, quotes and brackets.');
  if (!Array.isArray(entries)) return unreadable('CONNECTED_APPS_FILE must hold a JSON array of connected apps.');
  const results = entries.map((entry, position) => parseEntry(entry, position, source, deployment));
  const apps = results.flatMap((result) => (result.app ? [result.app] : []));
  const ids = results.flatMap((result) => (result.id === undefined ? [] : [result.id]));
  return {
    apps,
    faults: [...results.flatMap((result) => result.faults), ...duplicateFaults(ids)],
    faultyIds: results.filter((result) => result.faults.length > 0).map((result) => result.id),
  };
}

export function unreadable(fault: string): ParsedApps {
  return { apps: [], faults: [fault], faultyIds: [undefined] };
}

interface EntryResult {
  app?: ConnectedApp;
  id: string | undefined;
  faults: string[];
}

function parseEntry(
  entry: unknown,
  position: number,
  source: ConfigSource,
  { policy, publicHref }: Deployment,
): EntryResult {
  const parsed = fileEntry.safeParse(entry, ADVICE);
  const shapeFaults = parsed.success ? [] : inputFaults(parsed.error);
  const faulty = new Set(shapeFaults.map(({ pointer }) => pointer.split('/')[1] ?? ''));
  const valid = validFields(entry, faulty);
  const { clientSecret: secretAt, ...registration } = valid;
  const { clientSecret, fault: secretFault } = readSecret(secretAt, source);
  const prefix = `CONNECTED_APPS_FILE, app ${position + 1}${valid.id === undefined ? '' : ` (${valid.id})`}`;
  const faults = [
    ...shapeFaults.map(inWords),
    ...(secretFault === undefined ? [] : [`/clientSecret: ${secretFault}`]),
    ...(secretAt ? [] : secretFaults(registration, faulty)),
    ...coherenceFaults(registration, (field) => faulty.has(field)).map(inWords),
    ...(publicHref === undefined ? [] : ownCallbackFaults(registration, publicHref)).map(inWords),
    ...(policy ? addressTexts(registration, policy) : []),
  ].map((fault) => `${prefix}, ${fault}`);
  if (!parsed.success) return { id: valid.id, faults };
  const { clientSecret: _, ...complete } = parsed.data;
  return { app: Object.freeze({ ...complete, clientSecret }), id: valid.id, faults };
}

/** The valid fields, for checking rules over several fields although other fields have faults. */
function validFields(entry: unknown, faulty: ReadonlySet<string>): AnyFields {
  if (!isObject(entry)) return {};
  const fields = Object.fromEntries(Object.entries(entry).filter(([name]) => !faulty.has(name)));
  return anyFields.safeParse(fields).data ?? {};
}

function secretFaults(app: PartialRegistration, faulty: ReadonlySet<string>): string[] {
  const { tokenEndpointAuthMethod } = app;
  // If the method or the whole entry has a fault, it is unknown whether a secret is needed.
  const isUnknown = ['', 'clientSecret', 'tokenEndpointAuthMethod'].some((field) => faulty.has(field));
  const isNeeded = tokenEndpointAuthMethod?.startsWith('client_secret_');
  return isNeeded && !isUnknown ? [`/clientSecret: ${tokenEndpointAuthMethod} requires a client secret.`] : [];
}

function addressTexts(app: PartialRegistration, policy: AddressPolicy): string[] {
  return calledUrls(app).flatMap(([path, url]) => {
    const rule = policy.checkUrl(url);
    return rule ? [inWords(addressFault(path, rule))] : [];
  });
}

function inWords({ pointer, detail }: InputFault): string {
  return `${pointer.slice(1) || 'whole entry'}: ${detail}`;
}

function readSecret(
  secretAt: z.output<typeof secretSource> | undefined,
  source: ConfigSource,
): { clientSecret?: string; fault?: string } {
  if (secretAt === undefined) return {};
  const location = locationText(secretAt);
  if ('env' in secretAt) {
    const text = source.env[secretAt.env];
    return secretOr(location, text === undefined ? 'not set' : 'empty', text);
  }
  try {
    return secretOr(location, 'empty', source.readFile(secretAt.file));
  } catch (error) {
    return { fault: fileFault(error, location) ?? `${location} cannot be read.` };
  }
}

function secretOr(location: string, missing: string, text = ''): { clientSecret: string } | { fault: string } {
  const clientSecret = text.trim();
  if (clientSecret === '') return { fault: `${location} is ${missing}.` };
  return /[\r\n]/.test(clientSecret) ? { fault: `${location} has more than one line.` } : { clientSecret };
}

/** Repeats only the name of a variable or an absolute path: the value may be the secret itself, by mistake (R22). */
function locationText(secretAt: z.output<typeof secretSource>): string {
  if ('env' in secretAt)
    return /^[A-Z][A-Z0-9_]*$/.test(secretAt.env) ? `the variable ${secretAt.env}` : 'the variable that it names';
  return secretAt.file.startsWith('/') ? secretAt.file : 'the file that it names';
}

function duplicateFaults(ids: readonly string[]): string[] {
  return ids.flatMap((id, position) =>
    ids.indexOf(id) < position ? [`CONNECTED_APPS_FILE: the id "${id}" is used twice.`] : [],
  );
}

/** Placeholders in the examples of our documents. */
const PLACEHOLDERS =
  /^(the client ID|the consumer key|the-secret-that-the-provider-gave|the one that the provider gave)$/;

/** Warnings for apps that still have values from the examples in our documents. They name fields, never values. */
export const placeholderWarnings = (apps: readonly ConnectedApp[]): string[] =>
  apps.flatMap(({ id, issuer, clientId, clientSecret = '', apiBaseUrl = '' }) => {
    const fields = { issuer, clientId, clientSecret, apiBaseUrl };
    const isExample = (value: string) => /(^|\.)example\.com$/.test(URL.parse(value)?.hostname ?? '');
    const names = Object.entries(fields).flatMap(([name, value]) =>
      PLACEHOLDERS.test(value) || isExample(value) ? [name] : [],
    );
    return names.length === 0
      ? []
      : [`the app "${id}" still has example values from the documentation in ${names.join(', ')}.`];
  });
