/** Presets: settings and facts for well-known providers, as data. No code depends on a provider's name. */
import { z } from 'zod';
import { isObject } from '../../shared/json.ts';
import { type ConnectedAppRegistration, connectedAppSchema } from '../../shared/provider/connected-app.ts';
import data from './presets.json' with { type: 'json' };

type Field = keyof ConnectedAppRegistration;
const field = z.enum(Object.keys(connectedAppSchema.shape) as [Field, ...Field[]]);

const fact = z
  .strictObject({
    /** The members of `app` that this fact explains. */
    fields: z.array(field).default([]),
    text: z.string().min(1),
    source: z.url({ protocol: /^https$/ }).optional(),
    /** Set for a fact without a source. */
    confirmed: z.literal(false).optional(),
  })
  .refine(({ source, confirmed }) => (source === undefined) !== (confirmed === undefined), {
    error: 'Add the source of the fact, or "confirmed": false.',
  });

const presetSchema = z.strictObject({
  id: connectedAppSchema.shape.id,
  name: connectedAppSchema.shape.name,
  /** `simulation`: made from the provider's documentation, and not tried with a real server. */
  triedWith: z.enum(['simulation', 'server']),
  /** Where the URLs of an app are entered at the provider, and the names of its fields for them, if they are known. */
  registration: z.strictObject({
    place: z.string().min(1),
    fields: z.strictObject({ callback: z.string().min(1), postLogout: z.string().min(1).optional() }),
    source: z.url({ protocol: /^https$/ }),
  }),
  /** Parts of values in `app`, written as `{NAME}`, that the administrator fills in. `pattern`: recognises a value. */
  placeholders: z
    .record(z.string(), z.strictObject({ title: z.string(), example: z.string(), pattern: z.string().default('.+') }))
    .default({}),
  /** Members of a registration, except those that differ for each app. */
  app: z.partialRecord(field, z.json()),
  /** The scopes without which the provider issues no refresh token. */
  offlineScopes: z.array(z.string()).default([]),
  facts: z.array(fact).min(1),
});

export type Preset = z.output<typeof presetSchema>;
export type PresetFact = Preset['facts'][number];

export const PRESETS: readonly Preset[] = z.array(presetSchema).parse(data);

/** Returns members of a registration, with the placeholders replaced by these values. Others stay as they are. */
export function presetApp({ app }: Preset, values: Record<string, string> = {}): Partial<ConnectedAppRegistration> {
  const fill = (value: unknown): unknown => {
    if (typeof value === 'string') return value.replace(/\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole);
    if (Array.isArray(value)) return value.map(fill);
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, fill(inner)]));
  };
  return fill(app) as Partial<ConnectedAppRegistration>;
}

/** Returns true if users can sign in with the preset, which requires an ID token (OpenID Connect Core section 2). */
export const signsIn = (preset: Preset): boolean => presetApp(preset).scopes?.includes('openid') ?? false;

export const SIMULATED =
  'Simulated: tried against a simulation made from the documentation, not against a real server.';

/** Returns the limits to know before choosing the preset, in sentences. */
export function presetLimits(preset: Preset): string[] {
  return [
    ...(signsIn(preset)
      ? []
      : ['Users can connect it, but not sign in with it: with these settings the provider issues no ID token.']),
    ...(preset.triedWith === 'simulation' ? [SIMULATED] : []),
  ];
}

export interface PresetDifference {
  field: Field;
  /** The preset's value, as JSON. */
  advised: string;
  facts: PresetFact[];
}

export interface RecognisedPreset {
  preset: Preset;
  differences: PresetDifference[];
}

/** Returns the preset of this app's provider; if there are several, the one with the fewest differences. */
export function recognisePreset(app: ConnectedAppRegistration): RecognisedPreset | undefined {
  return PRESETS.filter((preset) => isOfProvider(preset, app))
    .map((preset) => ({ preset, differences: differencesOf(preset, app) }))
    .reduce<RecognisedPreset | undefined>(
      (best, candidate) => (best && best.differences.length <= candidate.differences.length ? best : candidate),
      undefined,
    );
}

function isOfProvider(preset: Preset, app: ConnectedAppRegistration): boolean {
  const { issuer, endpoints } = presetApp(preset);
  const isSameHost = (left: string | undefined, right: string | undefined) => {
    const host = left && URL.parse(left)?.host;
    return host !== undefined && host !== '' && host === (right && URL.parse(right)?.host);
  };
  return (
    matchesPreset(preset, issuer, app.issuer) ||
    isSameHost(issuer, app.issuer) ||
    isSameHost(endpoints?.authorization, app.endpoints?.authorization)
  );
}

/** Fields that the administrator chooses. */
const CHOSEN_FIELDS: ReadonlySet<string> = new Set(['scopes', 'signIn', 'apiBaseUrl', 'threadPath']);

function differencesOf(preset: Preset, app: ConnectedAppRegistration): PresetDifference[] {
  const difference = (name: Field, advised: unknown): PresetDifference => {
    const facts = preset.facts.filter(({ fields }) => fields.includes(name));
    return { field: name, advised: JSON.stringify(advised), facts };
  };
  const missingScopes = preset.offlineScopes.filter((scope) => !app.scopes.includes(scope));
  const { scopes = [] } = presetApp(preset);
  // An app without scopes is another kind of registration than one with scopes.
  const isOtherKind = (scopes.length === 0) !== (app.scopes.length === 0);
  return [
    ...(missingScopes.length > 0 ? [difference('scopes', missingScopes)] : []),
    ...(isOtherKind && missingScopes.length === 0 ? [difference('scopes', scopes)] : []),
    ...(Object.entries(preset.app) as [Field, unknown][])
      .filter(([name, value]) => !CHOSEN_FIELDS.has(name) && !matchesPreset(preset, value, app[name]))
      .map(([name, value]) => difference(name, value)),
  ];
}

/** Returns true if the value matches the preset's, with any fitting text for its placeholders. */
function matchesPreset(preset: Preset, advised: unknown, actual: unknown): boolean {
  if (typeof advised === 'string') return typeof actual === 'string' && patternOf(preset, advised).test(actual);
  if (!isObject(advised)) return JSON.stringify(advised) === JSON.stringify(actual);
  return Object.entries(advised).every(
    ([name, value]) => isObject(actual) && matchesPreset(preset, value, actual[name]),
  );
}

function patternOf({ placeholders }: Preset, text: string): RegExp {
  const source = text
    .split(/(\{\w+\})/)
    .map((part) => placeholders[/^\{(\w+)\}$/.exec(part)?.[1] ?? '']?.pattern ?? RegExp.escape(part))
    .join('');
  return new RegExp(`^(?:${source})$`);
}
