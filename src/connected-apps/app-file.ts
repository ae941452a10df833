/** Owns the reading of `CONNECTED_APPS_FILE`: its faults are all told at once, and secrets come from where it points. */
import { z } from 'zod';
import type { ConfigSource } from '../config.ts';
import { type ConnectedApp, connectedAppSchema, registrationFaults } from './connected-app.ts';

const secretSource = z.union([
  z.strictObject({ env: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/) }),
  z.strictObject({ file: z.string().min(1) }),
]);

const fileEntry = connectedAppSchema.extend({
  clientSecret: z
    .custom<z.output<typeof secretSource>>((value) => secretSource.safeParse(value).success, {
      message: 'Give {"env": "NAME"} or {"file": "PATH"}: a secret itself does not belong in this file.',
    })
    .optional(),
});

/**
 * @param text the file's content
 * @param source where secrets are read from
 * @returns the apps, or every fault as a sentence that names the app, the field and what to do; secrets are in none of them
 */
export function parseConnectedApps(text: string, source: ConfigSource): { apps: ConnectedApp[]; faults: string[] } {
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch {
    // The parser's own message repeats a piece of the file, which may hold a secret put there by mistake.
    return { apps: [], faults: ['CONNECTED_APPS_FILE is not valid JSON: check commas, quotes and brackets.'] };
  }
  if (!Array.isArray(entries))
    return { apps: [], faults: ['CONNECTED_APPS_FILE must hold a JSON array of connected apps.'] };
  const results = entries.map((entry, position) => parseEntry(entry, position, source));
  const apps = results.flatMap((result) => (result.app ? [result.app] : []));
  const ids = results.flatMap((result) => (result.id === undefined ? [] : [result.id]));
  return { apps, faults: [...results.flatMap((result) => result.faults), ...duplicateFaults(ids)] };
}

interface EntryResult {
  app?: ConnectedApp;
  id: string | undefined;
  faults: string[];
}

function parseEntry(entry: unknown, position: number, source: ConfigSource): EntryResult {
  const parsed = fileEntry.safeParse(entry);
  const shapeFaults = parsed.success ? [] : registrationFaults(parsed.error);
  const faulty = new Set(shapeFaults.map(({ pointer }) => pointer.split('/')[1] ?? ''));
  const sound = soundPart(entry, faulty);
  const { clientSecret: secretAt, ...registration } = sound;
  const clientSecret = secretAt && readSecret(secretAt, source);
  const place = `CONNECTED_APPS_FILE, app ${position + 1}${sound.id === undefined ? '' : ` (${sound.id})`}`;
  const faults = [
    ...shapeFaults.map(({ pointer, detail }) => `${pointer.slice(1) || 'whole entry'}: ${detail}`),
    ...(secretAt && !clientSecret ? ['/clientSecret: the place that it names is empty or cannot be read.'] : []),
    ...(secretAt ? [] : secretFaults(registration, faulty)),
    ...coherenceFaults(registration, faulty),
  ].map((fault) => `${place}, ${fault}`);
  if (!parsed.success) return { id: sound.id, faults };
  const { clientSecret: _, ...complete } = parsed.data;
  return { app: Object.freeze({ ...complete, clientSecret }), id: sound.id, faults };
}

type FileEntry = z.output<typeof fileEntry>;
type SoundPart = { [Field in keyof FileEntry]?: FileEntry[Field] | undefined };
type Registration = Omit<SoundPart, 'clientSecret'>;

/** The fields that are in order, so that what they say together is judged although others are not. */
function soundPart(entry: unknown, faulty: ReadonlySet<string>): SoundPart {
  if (typeof entry !== 'object' || entry === null) return {};
  const inOrder = Object.fromEntries(Object.entries(entry).filter(([name]) => !faulty.has(name)));
  return z.object(fileEntry.shape).partial().safeParse(inOrder).data ?? {};
}

function secretFaults(app: Registration, faulty: ReadonlySet<string>): string[] {
  const { tokenEndpointAuthMethod = 'client_secret_basic' } = app;
  // Where the method or the whole entry is in doubt, nobody knows whether a secret is needed.
  const unknown = ['', 'clientSecret', 'tokenEndpointAuthMethod'].some((field) => faulty.has(field));
  return unknown || tokenEndpointAuthMethod === 'none' ? [] : [`/clientSecret: ${tokenEndpointAuthMethod} needs one.`];
}

/** What no single field shows: OpenID Connect where people sign in, endpoints that need each other. */
function coherenceFaults(app: Registration, faulty: ReadonlySet<string>): string[] {
  const { authorization, token, jwks } = app.endpoints ?? {};
  const byHand = authorization !== undefined || token !== undefined;
  return [
    ...(app.signIn && !faulty.has('scopes') && !app.scopes?.includes('openid')
      ? ['/scopes: an app that people sign in with must be an OpenID provider and ask for the scope "openid".']
      : []),
    ...(authorization && !token ? ['/endpoints/token: give it together with authorization.'] : []),
    ...(token && !authorization ? ['/endpoints/authorization: give it together with token.'] : []),
    ...(app.signIn && byHand && !app.discoveryUrl && !jwks
      ? ['/endpoints/jwks: needed to verify the ID tokens of an app that people sign in with.']
      : []),
  ];
}

function readSecret(at: z.output<typeof secretSource>, source: ConfigSource): string | undefined {
  if ('env' in at) return source.env[at.env]?.trim() || undefined;
  try {
    return source.readFile(at.file).trim() || undefined;
  } catch {
    return undefined;
  }
}

function duplicateFaults(ids: readonly string[]): string[] {
  return ids.flatMap((id, position) =>
    ids.indexOf(id) < position ? [`CONNECTED_APPS_FILE: the id "${id}" is used twice.`] : [],
  );
}
