/** The functions of templates (`it.show`) for texts, dates, links and small pieces of HTML. */

import { ROUTE_METHODS } from '../provider/app-routes.ts';
import { claimNameWarning } from '../provider/claim-path.ts';
import { capitalised, cutText } from '../text.ts';
import { DAY_MS } from '../time.ts';
import { sharedAssets } from './assets.ts';
import { inDrawnOrder, withFocus } from './drawn-faults.ts';
import type { FieldFault } from './page-data.ts';
import { helperText, isBroken, problemText } from './problem-texts.ts';
import { relativeTime } from './relative-time.ts';
import {
  HEALTHS,
  healthText,
  scopeText,
  sourceText,
  type Tone,
  webhookAttemptText,
  webhookEventText,
} from './words.ts';

declare const html: unique symbol;
/** HTML that templates print unescaped, with `<%~`; the values in it are already escaped. */
export type Html = string & { readonly [html]: true };

export type Show = typeof SHOW & {
  /** Formats a time relative to now, with the exact time as a tooltip. */
  ago(iso: string | null | undefined, otherwise?: string): Html;
  /** Formats a time after the word "since": as the time of day if it is less than a day ago, otherwise as the date. */
  since(iso: string): Html;
};

/** Creates the `Intl` formatter only once, on first use, since that takes longer than rendering a page. */
function formatter(style: Intl.DateTimeFormatOptions, suffix = ''): (iso: string) => string {
  let format: Intl.DateTimeFormat | undefined;
  return (iso) => {
    const instant = new Date(iso);
    // The platform may send a text that is not a date, which is shown unchanged.
    if (Number.isNaN(instant.getTime())) return iso;
    format ??= new Intl.DateTimeFormat('en-GB', { ...style, timeZone: 'UTC' });
    return format.format(instant) + suffix;
  };
}

export const dateText = formatter({ dateStyle: 'long' });
const dateTime = formatter({ dateStyle: 'long', timeStyle: 'short' }, ' UTC');
const shortTime = formatter({ dateStyle: 'medium', timeStyle: 'short' }, ' UTC');
const clock = formatter({ timeStyle: 'medium' }, ' UTC');
const timeOfDay = formatter({ timeStyle: 'short' }, ' UTC');
const shortDate = formatter({ day: 'numeric', month: 'short' });

interface CheckedHealth {
  health: Parameters<typeof healthText>[0];
  notCheckedSince?: string | null | undefined;
}

const SHOW = {
  /** The path of the assets, below the base path. */
  assetsPath: sharedAssets().path,
  /** Whether a list is so long that it has a search. */
  isLong: ({ length }: { length: number }) => length >= 10,
  problem: problemText,
  helper: helperText,
  isBroken,
  healths: HEALTHS,
  health: healthText,
  healthStatus: ({ health, notCheckedSince }: CheckedHealth) => {
    if (notCheckedSince) return status('idle', `Not checked since ${shortTime(notCheckedSince)}`, 'question');
    const { tone, label, icon } = healthText(health);
    return status(tone, label, icon);
  },
  scope: scopeText,
  claimNameWarning,
  inDrawnOrder,
  withFocus: (body: Html, faults: readonly FieldFault[]) => withFocus(body, faults) as Html,
  routeMethods: ROUTE_METHODS,
  webhookEvent: webhookEventText,
  webhookAttempt: webhookAttemptText,
  source: sourceText,
  date: dateText,
  shortDate,
  dateTime,
  clock,
  day: timeElement(dateText),
  time: timeElement(dateTime),
  timeOfDay: timeElement(timeOfDay),
  status,
  appField: (field: string) => APP_FIELDS.get(field)?.label ?? field,
  daysAgo: (days: number | undefined) =>
    days === undefined ? 'some time ago' : days === 0 ? 'today' : days === 1 ? 'yesterday' : `${days} days ago`,
  appFieldAnchor: (field: string) => APP_FIELDS.get(field)?.anchor ?? field,
  link: safeLink,
  contact,
  bankLink: (url: string) => (/^[a-z0-9.-]+\.[a-z]{2,}(\/[\w./-]*)?$/i.test(url) ? `https://${url}` : undefined),
  phoneLink: (phone: string) => (/^\+?[\d ()-]{5,24}$/.test(phone) ? `tel:${phone.replace(/[^\d+]/g, '')}` : undefined),
  network: formatNetwork,
  /** Returns the view of a form that has not been submitted yet. */
  form: <Values>(values: Values) => ({ values, faults: [] as FieldFault[], dropped: [] as string[] }),
  number: (value: number) => value.toLocaleString('en-GB'),
  capitalised,
  bin: binDigits,
  cardDigits,
  flag,
  coordinates,
  json: formatJson,
  /** Escapes a text, and shows the parts between backticks as code. */
  withCode: (text: string): Html => escapeText(text).replace(/`([^`]+)`/g, '<code>$1</code>') as Html,
  /** Shows a text on one line, which the page cuts at its end, with the full text in the tooltip. */
  cut: (text: string, fullText = text): Html =>
    `<span class="cut" title="${escapeText(fullText)}"><bdi>${escapeText(text)}</bdi></span>` as Html,
  clip: (text: string, maxLength: number) => (text.length > maxLength ? `${cutText(text, maxLength)}…` : text),
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
      const text = isToday ? timeOfDay(iso) : shortDate(iso);
      return `<time datetime="${escapeText(iso)}" title="${escapeText(dateTime(iso))}">${escapeText(text)}</time>` as Html;
    },
  };
}

/** The labels of a connected app's form fields, and the ids of their elements. */
const APP_FIELDS: ReadonlyMap<string, { label: string; anchor: string }> = new Map([
  ['issuer', { label: 'Issuer', anchor: 'issuer' }],
  ['clientId', { label: 'Client ID', anchor: 'clientId' }],
  ['clientSecret', { label: 'Client secret', anchor: 'clientSecret' }],
  ['callbackUrls', { label: 'Callback URLs', anchor: 'callback-title' }],
  ['scopes', { label: 'Scopes', anchor: 'scopes-title' }],
  ['signIn', { label: 'Who may sign in', anchor: 'use-title' }],
  ['apiBaseUrlFrom', { label: 'Hosts that this member may name', anchor: 'apiBaseUrlFrom-hosts' }],
  ['endpoints', { label: 'Endpoints', anchor: 'endpoints-authorization' }],
  ['par', { label: 'Pushed authorization requests', anchor: 'par' }],
  ['dpop', { label: 'Tokens bound to a key', anchor: 'dpop' }],
  ['account', { label: 'Member with the account’s id', anchor: 'account-field' }],
  ['tokenEndpoint', { label: 'Token endpoint', anchor: 'endpoints-token' }],
  ['tokenParameters', { label: 'Extra token parameters', anchor: 'tokenParameters' }],
  ['tokenPath', { label: 'Path of nested tokens', anchor: 'tokenPath' }],
]);

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

// Bidirectional marks can disguise a name, and control characters are not text.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern removes control characters
const UNWANTED = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

export function escapeText(value: unknown): string {
  return String(value)
    .replace(UNWANTED, '')
    .replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '');
}

/** @returns a function that formats a time, or prints `otherwise` if there is none */
function timeElement(format: (iso: string) => string) {
  return (iso: string | null | undefined, otherwise = '–'): Html =>
    (iso == null
      ? escapeText(otherwise)
      : `<time datetime="${escapeText(iso)}">${escapeText(format(iso))}</time>`) as Html;
}

const STATUS_ICONS: Readonly<Record<Tone, string>> = { good: 'check', notice: 'clock', bad: 'warning', idle: 'clock' };

/** Returns a short text with an icon, in the colour of the tone. */
function status(tone: Tone, text: string, icon = STATUS_ICONS[tone]): Html {
  const iconHtml = `<span class="icon icon-${icon}" aria-hidden="true"></span>`;
  return `<span class="status status-${tone}">${iconHtml}${escapeText(text)}</span>` as Html;
}

/** Allows local paths, http, https and mailto; any other URL, such as `javascript:`, becomes `#`. */
function safeLink(url: string): string {
  return /^(\/(?![/\\])|https?:\/\/|mailto:)/i.test(url) ? url : '#';
}

/** Makes web and e-mail addresses links; any other text stays plain. */
function contact(text: string): Html {
  const label = `<bdi>${escapeText(text)}</bdi>`;
  const isLink = /^(https?:\/\/|mailto:)\S+$/i.test(text);
  if (!isLink && !/^[^\s@:]+@[^\s@:]+\.[^\s@:]+$/.test(text)) return label as Html;
  return `<a href="${escapeText(isLink ? text : `mailto:${text}`)}">${label}</a>` as Html;
}

const NETWORKS: ReadonlyMap<string, { key: string; name: string }> = new Map(
  [
    { key: 'visa', name: 'Visa' },
    { key: 'mastercard', name: 'Mastercard' },
    { key: 'maestro', name: 'Maestro' },
    { key: 'amex', name: 'American Express', alias: 'americanexpress' },
    { key: 'diners', name: 'Diners Club', alias: 'dinersclub' },
    { key: 'discover', name: 'Discover' },
    { key: 'jcb', name: 'JCB' },
    { key: 'unionpay', name: 'UnionPay' },
    { key: 'mir', name: 'Mir' },
    { key: 'elo', name: 'Elo' },
    { key: 'hiper', name: 'Hiper' },
    { key: 'hipercard', name: 'Hipercard' },
    { key: 'verve', name: 'Verve' },
    { key: 'dankort', name: 'Dankort' },
  ].flatMap(({ key, name, alias }) => [key, alias ?? key].map((spelling) => [spelling, { key, name }] as const)),
);

/** Returns the official name of a network and the key of its colours. An unknown name stays as it is. */
function formatNetwork(scheme: string | undefined): { key: string; name: string } {
  if (scheme === undefined || scheme === '') return { key: 'other', name: 'Network not known' };
  return NETWORKS.get(scheme.toLowerCase().replace(/[^a-z]/g, '')) ?? { key: 'other', name: scheme };
}

/** Returns the BIN; '' for other digits, since a longer number may be a card number. */
function binDigits(bin: string): string {
  return /^\d{6,8}$/.test(bin) ? bin : '';
}

/** Returns the BIN, padded with dots to the length of the card number, in groups as on a card. */
function cardDigits(bin: string, length = 16): string[] {
  const prefix = binDigits(bin);
  const total = Number.isInteger(length) && length >= 12 && length <= 19 ? length : 16;
  const sizes = total === 15 ? [4, 6, 5] : total === 14 ? [4, 6, 4] : [4, 4, 4, 4, 4];
  const digits = prefix.padEnd(total, '•');
  const groups: string[] = [];
  let from = 0;
  for (const size of sizes) {
    if (from < total) groups.push(digits.slice(from, from + size));
    from += size;
  }
  return groups;
}

/** Returns the path of a flag below `assetsPath`. It contains only the country code, and no text of a data source. */
function flag(alpha2: string | undefined): string {
  return alpha2 !== undefined && /^[A-Za-z]{2}$/.test(alpha2) ? `flags/${alpha2.toLowerCase()}.svg` : '';
}

function coordinates(latitude: number, longitude: number): string {
  return `${Math.abs(latitude)}° ${latitude < 0 ? 'S' : 'N'}, ${Math.abs(longitude)}° ${longitude < 0 ? 'W' : 'E'}`;
}

function formatJson(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? '';
}
