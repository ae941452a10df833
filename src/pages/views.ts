/** Renders pages with Eta: escaping, and the formatting of values. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Eta } from 'eta';
import type { PageData, PageName } from './page-data.ts';
import { healthText, problemText, scopeText, sourceText, whoseText } from './problem-texts.ts';

export interface Views {
  /** The whole HTML document of a page. Everything in `data` is escaped; only `SanitisedHtml` is printed as it is. */
  render<K extends PageName>(name: K, data: PageData[K]): string;
}

export const VIEWS_DIRECTORY = join(import.meta.dirname, '..', '..', 'views');

/** @param parts `directory`: absolute path of the templates */
export function createViews({ directory = VIEWS_DIRECTORY }: { directory?: string } = {}): Views {
  const eta = new Eta({ views: directory, cache: true, autoEscape: true, escapeFunction: escapeText });
  // Read at start, so that a page can be rendered for the first time when no file descriptor is left (F21).
  const texts = readTemplates(directory);
  eta.readFile = (path) => texts.get(path) ?? '';
  return {
    render: (name, data) => eta.render(`/${name}`, { ...data, show: SHOW }),
  };
}

/** By absolute path. */
function readTemplates(directory: string): Map<string, string> {
  const paths = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.eta'));
  return new Map(paths.map((path) => join(directory, path)).map((path) => [path, readFileSync(path, 'utf8')]));
}

/** Creates the `Intl` formatter on first use, and once: creating it costs more than rendering a page. */
function formatter(style: Intl.DateTimeFormatOptions): (instant: Date) => string {
  let format: Intl.DateTimeFormat | undefined;
  return (instant) => {
    format ??= new Intl.DateTimeFormat('en-GB', { ...style, timeZone: 'UTC' });
    return format.format(instant);
  };
}

const DATE = formatter({ dateStyle: 'long' });
const DATE_TIME = formatter({ dateStyle: 'long', timeStyle: 'short' });
const CLOCK = formatter({ timeStyle: 'medium' });

/** The functions that templates format values with. */
const SHOW = {
  problem: problemText,
  whose: whoseText,
  health: healthText,
  scope: scopeText,
  source: sourceText,
  date: (iso: string) => formatInstant(iso, DATE),
  dateTime: (iso: string) => formatInstant(iso, DATE_TIME, ' UTC'),
  clock: (iso: string) => formatInstant(iso, CLOCK, ' UTC'),
  appField: (field: string) => APP_FIELDS.get(field)?.label ?? field,
  daysAgo: (days: number) => (days === 0 ? 'today' : days === 1 ? 'yesterday' : `${days} days ago`),
  appFieldPlace: (field: string) => APP_FIELDS.get(field)?.place ?? field,
  link: safeLink,
  contactLink,
  bankLink: (url: string) => (/^[a-z0-9.-]+\.[a-z]{2,}(\/[\w./-]*)?$/i.test(url) ? `https://${url}` : undefined),
  phoneLink: (phone: string) => (/^\+?[\d ()-]{5,24}$/.test(phone) ? `tel:${phone.replace(/[^\d+]/g, '')}` : undefined),
  network: formatNetwork,
  capitalised: (text: string) => text.charAt(0).toUpperCase() + text.slice(1),
  bin: knownDigits,
  cardDigits,
  flag,
  coordinates,
  json: formatJson,
  clip: (text: string, characters: number) => (text.length > characters ? `${text.slice(0, characters)}…` : text),
};

/** Fields of a connected app's form: their labels, and the ids of their elements. */
const APP_FIELDS: ReadonlyMap<string, { label: string; place: string }> = new Map([
  ['issuer', { label: 'Issuer', place: 'issuer' }],
  ['clientId', { label: 'Client ID', place: 'clientId' }],
  ['clientSecret', { label: 'Client secret', place: 'clientSecret' }],
  ['callbackUrls', { label: 'Callback URLs', place: 'callback-title' }],
  ['scopes', { label: 'Scopes', place: 'scopes-title' }],
  ['signIn', { label: 'Who may sign in', place: 'use-title' }],
  ['par', { label: 'Pushed authorization requests', place: 'par' }],
  ['dpop', { label: 'Tokens bound to a key', place: 'dpop' }],
]);

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

// Bidirectional marks can disguise a name; other control characters are not text.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it removes
const UNWANTED = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

function escapeText(value: unknown): string {
  return String(value)
    .replace(UNWANTED, '')
    .replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '');
}

function formatInstant(iso: string, format: (instant: Date) => string, suffix = ''): string {
  const instant = new Date(iso);
  // The platform may send a text that is no date: show it unchanged.
  if (Number.isNaN(instant.getTime())) return iso;
  return format(instant) + suffix;
}

/** Allows local paths, http, https and mailto; any other URL, such as `javascript:`, becomes `#`. */
function safeLink(url: string): string {
  return /^(\/(?![/\\])|https?:\/\/|mailto:)/i.test(url) ? url : '#';
}

function contactLink(contact: string): string | undefined {
  if (/^(https?:\/\/|mailto:)\S+$/i.test(contact)) return contact;
  return /^[^\s@:]+@[^\s@:]+\.[^\s@:]+$/.test(contact) ? `mailto:${contact}` : undefined;
}

const NETWORKS: ReadonlyMap<string, { key: string; name: string }> = new Map(
  [
    { key: 'visa', name: 'Visa' },
    { key: 'mastercard', name: 'Mastercard' },
    { key: 'maestro', name: 'Maestro' },
    { key: 'amex', name: 'American Express', also: 'americanexpress' },
    { key: 'diners', name: 'Diners Club', also: 'dinersclub' },
    { key: 'discover', name: 'Discover' },
    { key: 'jcb', name: 'JCB' },
    { key: 'unionpay', name: 'UnionPay' },
    { key: 'mir', name: 'Mir' },
    { key: 'elo', name: 'Elo' },
    { key: 'hiper', name: 'Hiper' },
    { key: 'hipercard', name: 'Hipercard' },
    { key: 'verve', name: 'Verve' },
    { key: 'dankort', name: 'Dankort' },
  ].flatMap(({ key, name, also }) => [key, also ?? key].map((spelling) => [spelling, { key, name }] as const)),
);

/** The network's official spelling and the key of its colours; an unknown name stays as it is. */
function formatNetwork(scheme: string | undefined): { key: string; name: string } {
  if (scheme === undefined || scheme === '') return { key: 'other', name: 'Network not known' };
  return NETWORKS.get(scheme.toLowerCase().replace(/[^a-z]/g, '')) ?? { key: 'other', name: scheme };
}

/** The BIN if it is one, else '': a longer number may be a card number. */
function knownDigits(bin: string): string {
  return /^\d{6,8}$/.test(bin) ? bin : '';
}

/** The BIN followed by dots for the other digits, grouped as on a card. */
function cardDigits(bin: string, length = 16): string[] {
  const known = knownDigits(bin);
  const total = Number.isInteger(length) && length >= 12 && length <= 19 ? length : 16;
  const sizes = total === 15 ? [4, 6, 5] : total === 14 ? [4, 6, 4] : [4, 4, 4, 4, 4];
  const digits = known.padEnd(total, '•');
  const groups: string[] = [];
  let from = 0;
  for (const size of sizes) {
    if (from < total) groups.push(digits.slice(from, from + size));
    from += size;
  }
  return groups;
}

/** The path of the flag below `assets`, by country code, so that no text of a data source is used as a flag. */
function flag(alpha2: string | undefined): string {
  return alpha2 !== undefined && /^[A-Za-z]{2}$/.test(alpha2) ? `flags/${alpha2.toLowerCase()}.svg` : '';
}

function coordinates(latitude: number, longitude: number): string {
  return `${Math.abs(latitude)}° ${latitude < 0 ? 'S' : 'N'}, ${Math.abs(longitude)}° ${longitude < 0 ? 'W' : 'E'}`;
}

function formatJson(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? '';
}
