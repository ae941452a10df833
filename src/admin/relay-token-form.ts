/** Owns the form that makes or changes a relay token: what was typed, what it means, and which field a fault belongs to. */
import { formField } from '../http/body.ts';
import type { InputFault } from '../input-faults.ts';
import type { RelayToken } from '../relay/relay-token.ts';

export type RelayTokenField = 'name' | 'scopes' | 'apps' | 'users' | 'networks' | 'expiresAt';

/** As it was typed; a faulty form comes back so. */
export interface RelayTokenForm {
  name: string;
  scopes: readonly string[];
  apps: readonly string[];
  users: 'all' | 'none' | 'listed';
  /** User ids, one a line. */
  listed: string;
  /** CIDRs, one a line. */
  networks: string;
  /** From now; in the form of a token that there is: empty where its end is kept. */
  days: string;
  assertUser: boolean;
  fullScope: boolean;
  faults: Partial<Record<RelayTokenField, string>>;
  /** Said where somebody else was faster. */
  conflict?: string | undefined;
}

const DAY_MILLISECONDS = 86_400_000;

export function emptyRelayTokenForm(): RelayTokenForm {
  return {
    ...{ name: '', scopes: ['threads:read'], apps: [], users: 'none', listed: '', networks: '', days: '90' },
    ...{ assertUser: false, fullScope: false, faults: {} },
  };
}

export function formOfToken(token: RelayToken): RelayTokenForm {
  const { name, scopes, apps, users, networks, assertUser, fullScope } = token;
  const listed = typeof users === 'string' ? '' : users.join('\n');
  const whom = typeof users === 'string' ? users : 'listed';
  return {
    ...{ name, scopes, apps, users: whom, listed, networks: networks.join('\n'), days: '' },
    ...{ assertUser, fullScope, faults: {} },
  };
}

/** @param now milliseconds since the epoch: days are counted from it. @param kept whose end stays where no days are given */
export function readRelayTokenForm(body: unknown, now: number, kept?: Pick<RelayToken, 'expiresAt'>) {
  const users = formField(body, 'users');
  const typed: RelayTokenForm = {
    name: formField(body, 'name') ?? '',
    scopes: fieldsOf(body, 'scopes'),
    apps: fieldsOf(body, 'apps'),
    users: users === 'all' || users === 'listed' ? users : 'none',
    listed: formField(body, 'listed') ?? '',
    networks: formField(body, 'networks') ?? '',
    days: formField(body, 'days') ?? '',
    assertUser: formField(body, 'assertUser') === 'yes',
    fullScope: formField(body, 'fullScope') === 'yes',
    faults: {},
  };
  const end = kept && typed.days.trim() === '' ? kept.expiresAt : now + daysOf(typed.days) * DAY_MILLISECONDS;
  const input = {
    ...{ name: typed.name, scopes: typed.scopes, apps: typed.apps },
    users: typed.users === 'listed' ? linesOf(typed.listed) : typed.users,
    networks: linesOf(typed.networks),
    expiresAt: new Date(end).toISOString(),
    ...{ assertUser: typed.assertUser, fullScope: typed.fullScope },
  };
  return { typed, input, faultsOf };
}

export function rotationOfForm(body: unknown): number {
  const hours = formField(body, 'overlapHours') ?? '';
  return /^\d{1,3}$/.test(hours) ? Math.min(720, Number(hours)) * 3600 : 0;
}

/** 0 for anything but a number of days, which no token may have. */
function daysOf(text: string): number {
  return /^\d{1,4}$/.test(text.trim()) ? Number(text) : 0;
}

/** The first fault of each field, in the words of the form. */
function faultsOf(faults: readonly InputFault[]): RelayTokenForm['faults'] {
  const told: RelayTokenForm['faults'] = {};
  for (const { pointer, detail } of faults) {
    const field = pointer.split('/')[1] as RelayTokenField;
    told[field] ??= FORM_WORDS[field] ?? detail;
  }
  return told;
}

const FORM_WORDS: Partial<Record<RelayTokenField, string>> = {
  name: 'Give the token a name of at most 100 characters.',
  scopes: 'Choose at least one thing that the token may do.',
  expiresAt: 'Say for how many days: 1 to 9999.',
};

/** A field that may be there several times, such as ticked boxes. */
function fieldsOf(body: unknown, name: string): string[] {
  const value = typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[name] : undefined;
  return [value].flat().filter((one) => typeof one === 'string');
}

function linesOf(text: string): string[] {
  return text.split(/[\s,]+/).filter((line) => line !== '');
}
