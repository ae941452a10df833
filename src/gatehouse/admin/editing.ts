/**
 * Forms that change a stored record which another administrator may change at the same time. The form carries
 * fingerprints of what it showed; what others have changed since is kept, and what both changed is shown, with who and
 * when, before it is replaced.
 */
import type { Request } from 'express';
import { z } from 'zod';
import type { InputFault } from '../../shared/config/input-faults.ts';
import { AppError } from '../../shared/errors.ts';
import { FormConflict } from '../../shared/pages/form.ts';
import type { Notice } from '../../shared/pages/page-data.ts';
import { dateText } from '../../shared/pages/show.ts';
import { actorOf } from '../../shared/sessions/actor.ts';
import { capitalised, cutText, uncapitalised } from '../../shared/text.ts';
import { isoTime } from '../../shared/time.ts';
import { type AuditEvent, type AuditRecord, DELETIONS } from '../audit/kinds.ts';
import { auditRows } from './audit/view.ts';
import { type Conflict, FINGERPRINT, fingerprintOf, type Members, mergeMembers } from './merge.ts';
import type { AdminParts } from './parts.ts';

/** When the form was shown, in milliseconds since the epoch, and the fingerprint of what it showed. */
export const baseField = z
  .string()
  .refine(
    (text) => /^\d{1,16} /.test(text) && FINGERPRINT.test(text.slice(text.indexOf(' ') + 1)),
    'Open the page again.',
  );

interface EditedKind {
  /** The resource of audit entries, such as `relay_token`. */
  resource: string;
  /** In texts, such as "relay token". */
  noun: string;
  /** The events of changes of the form's members. Their facts name the `changed` members. */
  changes: readonly AuditEvent[];
  /** The labels of the members on the page. */
  labelOf(member: string): string;
  /** Returns a value in words; undefined for one that is not shown, such as a secret. */
  wordsOf?(member: string, value: unknown): string | undefined;
}

interface Edit {
  id: string;
  /** The field `base` of the form. */
  base: string;
  current: Members;
  /** The members of the form; without those that it leaves as they are. */
  form: Members;
  /** What to do about a conflict, in place of saving again. */
  advice?: string;
  /** Returns the values with which the form is shown if there is a conflict. */
  valuesOf(merged: Record<string, unknown>): object | Promise<object>;
}

interface Edited {
  merged: Record<string, unknown>;
  /** Adds to a notice what others changed, and is kept. */
  withKept(notice: Notice): Notice;
}

export type Editing = ReturnType<typeof createEditing>;

/** A change by several administrators at once is tried this often. */
const MAX_ATTEMPTS = 5;
/** Enough for what can happen while a form is open. */
const MAX_ENTRIES = 200;
const MAX_SHOWN = 80;

export function createEditing(
  {
    audit,
    users,
    connectedApps,
    publicUrl,
    clock,
  }: Pick<AdminParts, 'audit' | 'users' | 'connectedApps' | 'publicUrl' | 'clock'>,
  { resource, noun, changes, labelOf, wordsOf = wordsOfValue }: EditedKind,
) {
  /** Returns the entries that match, the newest first; undefined if there are too many. */
  const entriesSince = async (id: string, from: number, events: readonly AuditEvent[]) => {
    const pages = await Promise.all(
      events.map((event) => audit.trail.page({ limit: MAX_ENTRIES, filter: { event, target: id, from } })),
    );
    if (pages.some(({ next }) => next !== undefined)) return undefined;
    const entries = pages.flatMap(({ items }) => items).filter(({ target }) => target?.kind === resource);
    const failed = new Set(entries.flatMap(({ outcome, requestId }) => (outcome === 'not_done' ? [requestId] : [])));
    return entries
      .filter(({ requestId }) => requestId === undefined || !failed.has(requestId))
      .sort((a, b) => (a.at < b.at ? 1 : -1));
  };

  const inWords = async (record: AuditRecord | undefined): Promise<{ who: string; when: string }> => {
    if (!record) return { who: 'someone', when: 'meanwhile' };
    const [row] = await auditRows([record], { users: users.store, apps: connectedApps.apps });
    const name = row?.actorName ?? '';
    const who = { admin_token: `the admin token “${name}”`, operator: uncapitalised(name) };
    return { who: who[record.actor.kind as keyof typeof who] ?? name, when: timeWords(record.at, isoTime(clock())) };
  };

  /** Says who changed members and when: one text for the changes of an entry. */
  const keptTexts = async (kept: readonly { member: string; by: AuditRecord | undefined }[]): Promise<string[]> => {
    const groups = Map.groupBy(kept, ({ by }) => by);
    return Promise.all(
      [...groups].map(async ([by, members]) => {
        const { who, when } = await inWords(by);
        return `Kept as ${who} changed it ${when}: ${members.map(({ member }) => labelOf(member)).join(', ')}.`;
      }),
    );
  };

  const faultOf = async (conflict: Conflict, by: AuditRecord | undefined, ownAdvice?: string): Promise<InputFault> => {
    const { member, entry, theirs } = conflict;
    const { who, when } = await inWords(by);
    const label = entry ? `${labelOf(member)}: ${entry.name}` : labelOf(member);
    const words = theirs === undefined ? undefined : wordsOf(member, theirs);
    const isEmpty = theirs === undefined || words === '';
    const change = isEmpty
      ? `${capitalised(who)} ${entry ? 'removed' : 'emptied'} “${label}” ${when}.`
      : `${capitalised(who)} changed “${label}”${words === undefined ? '' : ` to “${clipped(words)}”`} ${when}.`;
    const advice =
      ownAdvice ??
      (words === undefined && !isEmpty
        ? 'Enter yours again to use it instead.'
        : entry && entry.position === undefined
          ? 'You removed it. Save again to remove it.'
          : 'Save again to use your value.');
    const place = entry?.position === undefined ? member : `${member}/${entry.position}/name`;
    const isOnPage = !entry || entry.position !== undefined;
    return { pointer: isOnPage ? `#/${place}` : '#', rule: 'changed_meanwhile', detail: `${change} ${advice}` };
  };

  return {
    baseOf: (members: Members): string => `${clock()} ${fingerprintOf(members)}`,

    /**
     * Merges, and stores the result.
     * @throws FormConflict if others have changed the same members to other values, or if the result is not valid with
     *   what they changed: the form then shows that result, since what it was sent with would be refused again and again
     */
    async merge<T>(
      req: Request,
      { id, base, current, form, advice, valuesOf }: Edit,
      store: (edited: Edited) => Promise<T>,
    ): Promise<T> {
      const [since = '', ...fingerprint] = base.split(' ');
      const { merged, kept, conflicts } = mergeMembers(fingerprint.join(' '), current, form);
      const isChanged = kept.length > 0 || conflicts.length > 0;
      const entries = isChanged ? await entriesSince(id, Number(since), changes) : [];
      const { actor } = actorOf(req);
      const isOwn = (entry: AuditRecord) => entry.actor.kind === actor.kind && entry.actor.id === actor.id;
      /** Returns the latest change; `own` if the same administrator made it, and knew those before it. */
      const changedBy = (member: string, entry?: string): AuditRecord | 'own' | undefined => {
        const change = entries?.find(({ facts }) => concerns(facts, member, entry));
        return change && isOwn(change) ? 'own' : change;
      };
      const foreign = <T extends { by: AuditRecord | 'own' | undefined }>(items: readonly T[]) =>
        items.filter((item): item is T & { by: AuditRecord | undefined } => item.by !== 'own');

      const texts = await keptTexts(foreign(kept.map((member) => ({ member, by: changedBy(member) }))));
      const foreignConflicts = foreign(
        conflicts.map((conflict) => ({ conflict, by: changedBy(conflict.member, conflict.entry?.name) })),
      );
      const conflictWith = async (faults: readonly InputFault[]) => {
        const keptFaults = texts.map((detail) => ({ pointer: '#', rule: 'changed_meanwhile', detail }));
        const values = { ...(await valuesOf(merged)), base: `${clock()} ${fingerprintOf(current)}` };
        return new FormConflict(values, [...faults, ...keptFaults]);
      };
      if (foreignConflicts.length > 0) {
        throw await conflictWith(
          await Promise.all(foreignConflicts.map(({ conflict, by }) => faultOf(conflict, by, advice))),
        );
      }
      try {
        return await store({
          merged,
          withKept: (notice) => ({ ...notice, text: [notice.text, ...texts].join(' ') }),
        });
      } catch (error) {
        const isInvalid = error instanceof AppError && error.code === 'invalid_request' && error.faults;
        if (!isInvalid || texts.length === 0) throw error;
        throw await conflictWith(error.faults);
      }
    },

    /**
     * Does the work again if the record was changed between its reading and its writing.
     * @throws AppError `not_found`, which says who deleted the record, if it is gone
     */
    async save<T>(id: string, work: () => Promise<T>): Promise<T> {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await work();
        } catch (error) {
          if (!(error instanceof AppError)) throw error;
          if (error.code === 'not_found') throw await withDeletion(id, error);
          const isConflict = error.code === 'version_conflict' && !(error instanceof FormConflict);
          if (!isConflict || attempt === MAX_ATTEMPTS) throw error;
        }
      }
    },
  };

  async function withDeletion(id: string, error: AppError): Promise<AppError> {
    const deletions = Object.keys(DELETIONS).filter((event) => event.startsWith(`${resource}.`)) as AuditEvent[];
    const [deletion] = (await entriesSince(id, 0, deletions)) ?? [];
    if (!deletion) return error;
    const { who, when } = await inWords(deletion);
    return new AppError('not_found', {
      detail: `${capitalised(who)} deleted this ${noun} ${when}. Your changes were not saved.`,
      words: { title: `This ${noun} has been deleted`, advice: 'Choose another one in the list.' },
      action: { label: 'Go to the list', url: `${publicUrl.basePath}/admin/${resource.replaceAll('_', '-')}s` },
    });
  }
}

/** Returns true if the entry names the member among the changed ones, and the entry of a list, if it names those. */
function concerns(facts: AuditRecord['facts'], member: string, entry: string | undefined): boolean {
  const { changed, ...lists } = facts ?? {};
  const [name = ''] = member.split('-');
  if (Array.isArray(changed) && !changed.includes(name)) return false;
  const named = Object.values(lists).filter((list) => Array.isArray(list));
  return entry === undefined || named.length === 0 || named.some((list) => list.includes(entry));
}

/** Returns the time of the day, in UTC, with the date if that is not today. */
function timeWords(at: string, now: string): string {
  const time = `at ${at.slice(11, 16)} UTC`;
  if (at.slice(0, 10) === now.slice(0, 10)) return time;
  return `on ${dateText(at)} ${time}`;
}

function clipped(text: string): string {
  return text.length > MAX_SHOWN ? `${cutText(text, MAX_SHOWN)}…` : text;
}

export function wordsOfValue(_member: string, value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.join(', ');
  return value === null ? '' : String(value);
}
