/** Owns the reading of `CONNECTED_APPS_FILE`: its faults are all told at once, and secrets come from where it points. */
import { z } from 'zod';
import type { ConfigSource } from '../config.ts';
import {
  type ConnectedApp,
  type ConnectedAppRegistration,
  connectedAppSchema,
  registrationFaults,
} from './connected-app.ts';

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
  return { apps, faults: [...results.flatMap((result) => result.faults), ...duplicateFaults(apps)] };
}

function parseEntry(entry: unknown, position: number, source: ConfigSource): { app?: ConnectedApp; faults: string[] } {
  const parsed = fileEntry.safeParse(entry);
  const place = `CONNECTED_APPS_FILE, app ${position + 1}${parsed.success ? ` (${parsed.data.id})` : ''}`;
  if (!parsed.success) {
    return {
      faults: registrationFaults(parsed.error).map(
        ({ pointer, detail }) => `${place}, ${pointer.slice(1) || 'whole entry'}: ${detail}`,
      ),
    };
  }
  const { clientSecret: secretAt, ...registration } = parsed.data;
  const clientSecret = secretAt && readSecret(secretAt, source);
  const faults = [
    ...(secretAt && !clientSecret ? ['/clientSecret: the place that it names is empty or cannot be read.'] : []),
    ...coherenceFaults(registration, clientSecret),
  ];
  return { app: Object.freeze({ ...registration, clientSecret }), faults: faults.map((fault) => `${place}, ${fault}`) };
}

/** What no single field shows: a secret where the method needs one, OpenID Connect where people sign in. */
function coherenceFaults(app: ConnectedAppRegistration, clientSecret: string | undefined): string[] {
  const needsSecret = app.tokenEndpointAuthMethod !== 'none';
  return [
    ...(needsSecret && !clientSecret ? [`/clientSecret: ${app.tokenEndpointAuthMethod} needs one.`] : []),
    ...(app.signIn && !app.scopes.includes('openid')
      ? ['/scopes: an app that people sign in with must be an OpenID provider and ask for the scope "openid".']
      : []),
    ...(app.endpoints?.authorization && !app.endpoints.token
      ? ['/endpoints/token: give it together with authorization.']
      : []),
    ...(app.endpoints?.token && !app.endpoints.authorization
      ? ['/endpoints/authorization: give it together with token.']
      : []),
    ...(app.signIn && app.endpoints?.token && !app.discoveryUrl && !app.endpoints.jwks
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

function duplicateFaults(apps: ConnectedApp[]): string[] {
  return apps.flatMap((app, position) =>
    apps.findIndex((other) => other.id === app.id) < position
      ? [`CONNECTED_APPS_FILE: the id "${app.id}" is used twice.`]
      : [],
  );
}
