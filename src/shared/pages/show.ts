/** What templates write values with, as `it.show`: words, dates, links and small pieces of HTML. */
import { capitalised } from '../text.ts';
import { DAY_MS } from '../time.ts';
import type { FieldFault } from './page-data.ts';
import { problemText, whoseText } from './problem-texts.ts';
import { relativeTime } from './relative-time.ts';
import { HEALTHS, healthText, scopeText, sourceText, type Tone, webhookEventText, webhookResultText } from './words.ts';

declare const html: unique symbol;
/** HTML that templates print as it is, with `<%~`: every value in it is escaped. */
export type Html = string & { readonly [html]: true };

export type Show = typeof SHOW & {
  /** As `time`, and as its distance from now, with the exact time as a tooltip. */
  ago(iso: string | null | undefined, otherwise?: string): Html;
  /** A time after "since": the hour if it is less than a day ago, otherwise the date. */
  since(iso: string): Html;
};

/** Creates the `Intl` formatter on first use, and once: creating it costs more than rendering a page. */
function formatter(style: Intl.DateTimeFormatOptions, suffix = ''): (iso: string) => string {
  let format: Intl.DateTimeFormat | undefined;
  return (iso) => {
    const instant = new Date(iso);
    // The platform may send a text that is no date: show it unchanged.
    if (Number.isNaN(instant.getTime())) return iso;
    format ??= new Intl.DateTimeFormat('en-GB', { ...style, timeZone: 'UTC' });
    return format.format(instant) + suffix;
  };
}

const date = formatter({ dateStyle: 'long' });
const dateTime = formatter({ dateStyle: 'long', timeStyle: 'short' }, ' UTC');
const shortTime = formatter({ dateStyle: 'medium', timeStyle: 'short' }, ' UTC');
const clock = formatter({ timeStyle: 'medium' }, ' UTC');
const timeOfDay = formatter({ timeStyle: 'short' }, ' UTC');
const shortDate = formatter({ day: 'numeric', month: 'short' });

interface ShownHealth {
  health: Parameters<typeof healthText>[0];
  notCheckedSince?: string | null | undefined;
}

const SHOW = {
  problem: problemText,
  whose: whoseText,
  healths: HEALTHS,
  health: healthText,
  healthStatus: ({ health, notCheckedSince }: ShownHealth) => {
    if (notCheckedSince) return status('idle', `Not checked since ${shortTime(notCheckedSince)}`, 'question');
    const { tone, label, icon } = healthText(health);
    return status(tone, label, icon);
  },
  scope: scopeText,
  webhookEvent: webhookEventText,
  webhookResult: webhookResultText,
  source: sourceText,
  date,
  dateTime,
  clock,
  day: timeElement(date),
  time: timeElement(dateTime),
  timeOfDay: timeElement(timeOfDay),
  status,
  appField: (field: string) => APP_FIELDS.get(field)?.label ?? field,
  daysAgo: (days: number | undefined) =>
    days === undefined ? 'some time ago' : days === 0 ? 'today' : days === 1 ? 'yesterday' : `${days} days ago`,
  appFieldPlace: (field: string) => APP_FIELDS.get(field)?.place ?? field,
  link: safeLink,
  contact,
  bankLink: (url: string) => (/^[a-z0-9.-]+\.[a-z]{2,}(\/[\w./-]*)?$/i.test(url) ? `https://${url}` : undefined),
  phoneLink: (phone: string) => (/^\+?[\d ()-]{5,24}$/.test(phone) ? `tel:${phone.replace(/[^\d+]/g, '')}` : undefined),
  network: formatNetwork,
  /** A form that has not been sent yet. */
  form: <Values>(values: Values) => ({ values, faults: [] as FieldFault[], dropped: [] as string[] }),
  number: (value: number) => value.toLocaleString('en-GB'),
  capitalised,
  bin: knownDigits,
  cardDigits,
  flag,
  coordinates,
  json: formatJson,
  /** Backticks mark code. */
  withCode: (text: string): Html => escapeText(text).replace(/`([^`]+)`/g, '<code>$1</code>') as Html,
  /** One line that is cut where it does not fit, and whole in the tooltip. */
  cut: (text: string, whole = text): Html =>
    `<span class="cut" title="${escapeText(whole)}"><bdi>${escapeText(text)}</bdi></span>` as Html,
  clip: (text: string, characters: number) => (text.length > characters ? `${text.slice(0, characters)}…` : text),
};

export function createShow(now: () => number): Show {
  return {
    ...SHOW,
    ago(iso, otherwise = '–') {
      const time = iso == null ? Number.NaN : Date.parse(iso);
      if (iso == null || Number.isNaN(time)) return escapeText(iso ?? otherwise) as Html;
      const attributes = `datetime="${escapeText(iso)}" title="${dateTime(iso)}"`;
      return `<time ${attributes}>${relativeTime(time, now())}</time>` as Html;
    },
    since(iso) {
      const isToday = now() - Date.parse(iso) < DAY_MS;
      const words = isToday ? timeOfDay(iso) : shortDate(iso);
      return `<time datetime="${escapeText(iso)}" title="${escapeText(dateTime(iso))}">${escapeText(words)}</time>` as Html;
    },
  };
}

/** Fields of a connected app's form: their labels, and the ids of their elements. */
const APP_FIELDS: ReadonlyMap<string, { label: string; place: string }> = new Map([
  ['issuer', { label: 'Issuer', place: 'issuer' }],
  ['clientId', { label: 'Client ID', place: 'clientId' }],
  ['clientSecret', { label: 'Client secret', place: 'clientSecret' }],
  ['callbackUrls', { label: 'Callback URLs', place: 'callback-title' }],
  ['scopes', { label: 'Scopes', place: 'scopes-title' }],
  ['signIn', { label: 'Who may sign in', place: 'use-title' }],
  ['apiBaseUrlFrom', { label: 'Hosts that this member may name', place: 'apiBaseUrlFrom-hosts' }],
  ['endpoints', { label: 'Endpoints', place: 'endpoints-authorization' }],
  ['par', { label: 'Pushed authorization requests', place: 'par' }],
  ['dpop', { label: 'Tokens bound to a key', place: 'dpop' }],
  ['account', { label: 'Member with the account’s id', place: 'account-field' }],
  ['tokenEndpoint', { label: 'Token endpoint', place: 'endpoints-token' }],
  ['tokenParameters', { label: 'Extra token parameters', place: 'tokenParameters' }],
  ['tokenPath', { label: 'Path of nested tokens', place: 'tokenPath' }],
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

export function escapeText(value: unknown): string {
  return String(value)
    .replace(UNWANTED, '')
    .replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '');
}

/** @returns a function; its `otherwise` stands in place of a time that is not known */
function timeElement(format: (iso: string) => string) {
  return (iso: string | null | undefined, otherwise = '–'): Html =>
    (iso == null
      ? escapeText(otherwise)
      : `<time datetime="${escapeText(iso)}">${escapeText(format(iso))}</time>`) as Html;
}

const STATUS_ICONS: Readonly<Record<Tone, string>> = { good: 'check', notice: 'clock', bad: 'warning', idle: 'clock' };

/** A word with its sign, in the colour of the tone. @param icon in place of the tone's own */
function status(tone: Tone, words: string, icon = STATUS_ICONS[tone]): Html {
  const sign = `<span class="icon icon-${icon}" aria-hidden="true"></span>`;
  return `<span class="status status-${tone}">${sign}${escapeText(words)}</span>` as Html;
}

/** Allows local paths, http, https and mailto; any other URL, such as `javascript:`, becomes `#`. */
function safeLink(url: string): string {
  return /^(\/(?![/\\])|https?:\/\/|mailto:)/i.test(url) ? url : '#';
}

/** A link to a web address or an e-mail address; any other text stays one. */
function contact(text: string): Html {
  const words = `<bdi>${escapeText(text)}</bdi>`;
  const isLink = /^(https?:\/\/|mailto:)\S+$/i.test(text);
  if (!isLink && !/^[^\s@:]+@[^\s@:]+\.[^\s@:]+$/.test(text)) return words as Html;
  return `<a href="${escapeText(isLink ? text : `mailto:${text}`)}">${words}</a>` as Html;
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
