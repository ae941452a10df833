/**
 * Rotation of secrets, by page and by API: a new one is created, and the previous one works for a while longer, or
 * until it is ended. A form that saw another secret asks again.
 */
import type { Request, RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { formField } from '../../shared/http/body.ts';
import { type DescribedHandler, operation, parseInput } from '../../shared/http/operation.ts';
import { type FormView, formHandler, wholeNumber } from '../../shared/pages/form.ts';
import type { NewSecret, Notice } from '../../shared/pages/page-data.ts';
import { confirmation } from './confirmation.ts';
import { baseField, createEditing } from './editing.ts';
import type { AdminPageData, PageRequest } from './page.ts';
import type { AdminParts } from './parts.ts';
import type { Resource } from './resource.ts';

declare module '../../shared/pages/page-data.ts' {
  interface PageData {
    /** `path`: of the record, below `/admin`. `hint`: what holds while both secrets work. */
    'admin/parts/rotate': AdminPageData & {
      name: string;
      path: string;
      hint: string;
      form: FormView<typeof rotationForm>;
    };
  }
}

const MAX_OVERLAP_HOURS = 720;
const HOURS_ADVICE = `Enter a whole number of hours from 0 to ${MAX_OVERLAP_HOURS}.`;
const rotationForm = z.object({ overlapHours: wholeNumber(0, MAX_OVERLAP_HOURS, HOURS_ADVICE), base: baseField });

/** The member of a response that contains a new secret. */
export const shownOnce = z.string().describe('only this response contains it');

interface Rotated {
  id: string;
  version: number;
  overlapEndsAt: number | undefined;
}

interface RotatedKind<T extends Rotated, S extends z.ZodObject> {
  kind: 'relay_token' | 'webhook';
  resource: Resource<T, S>;
  schema: S;
  /** The name of the member of the response that contains the secret. */
  member: string;
  /** Returns the name in the audit trail. */
  nameOf(item: T): string;
  /** Returns the name on pages. */
  labelOf(item: T): string;
  /** Returns what differs for each secret of an item. */
  secretOf(item: T): unknown;
  /** How long the previous secret works, if the caller of the API or the administrator does not choose. */
  defaults: { seconds: number; hours: string };
  hint: string;
  /** What ends with the previous secret. */
  consequence: string;
  /** Both return undefined if the item is gone. @throws AppError `version_conflict`, if there is a version */
  rotate(id: string, overlapSeconds: number, version?: number): Promise<{ item: T; text: string } | undefined>;
  end(id: string, version?: number): Promise<T | undefined>;
  newSecretOf(item: T, text: string): NewSecret | Promise<NewSecret>;
}

interface Rotation {
  page: RequestHandler;
  byForm: RequestHandler;
  byApi: DescribedHandler;
  end: { page: RequestHandler; byForm: RequestHandler; byApi: DescribedHandler };
}

export function secretRotation<T extends Rotated, S extends z.ZodObject>(
  parts: AdminParts,
  options: RotatedKind<T, S>,
): Rotation {
  const { kind, resource, schema, member, nameOf, labelOf, secretOf, defaults, hint, consequence, newSecretOf } =
    options;
  const noun = kind.replaceAll('_', ' ');
  const path = `${kind.replaceAll('_', '-')}s`;
  const editing = createEditing(parts, {
    resource: kind,
    noun,
    changes: [`${kind}.rotated`],
    labelOf: () => 'Secret',
    wordsOf: () => undefined,
  });
  const membersOf = async (item: T) => ({ secret: await secretOf(item) });
  const targetOf = (item: T) => ({ id: item.id, name: nameOf(item) });

  const rotate = (req: Request, item: T, overlapSeconds: number, version?: number) => {
    const work = () => options.rotate(item.id, overlapSeconds, version);
    return resource.audited(req, `${kind}.rotated`, targetOf(item), work, { overlapSeconds });
  };

  /** @throws AppError `invalid_request` if there is no previous secret */
  const end = (req: Request, item: T, version?: number): Promise<T> => {
    if (item.overlapEndsAt === undefined) throw new AppError('invalid_request', { detail: NONE });
    const work = () => options.end(item.id, version);
    return resource.audited(req, `${kind}.changed`, targetOf(item), work, { changed: ['previousSecret'] });
  };

  /** Does the work, unless the item has another secret than the form saw. @throws FormConflict */
  const workOn = <R>(req: Request, base: string, advice: string, work: (item: T) => Promise<R>): Promise<R> =>
    editing.save(String(req.params.id), async () => {
      const item = await resource.find(req);
      const form = { secret: 'new' };
      const edit = { id: item.id, base, current: await membersOf(item), form, advice, valuesOf: () => ({}) };
      return editing.merge(req, edit, () => work(item));
    });

  const rotatePage = parts.pages.page(
    'admin/parts/rotate',
    async ({ req, form: submitted }: PageRequest<FormView<typeof rotationForm>>) => {
      const item = await resource.find(req);
      const values = { overlapHours: defaults.hours, base: editing.baseOf(await membersOf(item)) };
      const form = submitted ?? { values, faults: [] };
      const name = labelOf(item);
      const title = `Rotate the secret of ${name}`;
      return { title, faults: form.faults, form, name, path: `${path}/${item.id}`, hint };
    },
  );

  const ending = confirmation<T>(parts, {
    menuPath: path,
    find: resource.find,
    home: ({ id }) => `${path}/${id}`,
    questionFor: async (item) => ({
      action: 'End the previous secret of',
      name: labelOf(item),
      consequences: [consequence, 'This cannot be undone.'],
      verb: 'End previous secret',
      version: editing.baseOf(await membersOf(item)),
    }),
    async work(req, { id }) {
      const base = parseInput(baseField, formField(req.body, 'version') ?? '');
      await workOn(req, base, END_ADVICE, (item) => end(req, item, item.version));
      return { url: `${resource.home}/${id}`, flash: { notice: ENDED } };
    },
  });

  return {
    page: rotatePage.handler,
    byForm: formHandler({
      pages: parts.pages,
      schema: rotationForm,
      work: (req, { overlapHours, base }) =>
        workOn(req, base, ROTATION_ADVICE, async (item) => {
          const rotated = await rotate(req, item, overlapHours * 3_600, item.version);
          const newSecret = await newSecretOf(rotated.item, rotated.text);
          const notice: Notice = { tone: 'success', text: `The ${noun} has a new secret.` };
          return { url: `${resource.home}/${item.id}`, flash: { notice, newSecret } };
        }),
      page: (req, form) => rotatePage.at(`${resource.home}/${encodeURIComponent(String(req.params.id))}/rotate`, form),
    }),
    byApi: resource.change({
      summary: `Give a ${noun} a new secret; only this response contains it`,
      body: z.strictObject({
        overlapSeconds: z
          .int()
          .min(0)
          .max(MAX_OVERLAP_HOURS * 3_600)
          .default(defaults.seconds)
          .describe('how long the previous secret stays valid'),
      }),
      addedMembers: { [member]: shownOnce } as z.ZodRawShape,
      async work(req, { overlapSeconds }) {
        const { item, text } = await rotate(req, await resource.find(req), overlapSeconds);
        return { item, [member]: text };
      },
    }),
    end: {
      page: ending.page,
      byForm: ending.form,
      byApi: operation(
        { summary: 'End the previous secret now, before the end of the overlap', response: schema },
        async ({ req }) => resource.toJson(await end(req, await resource.find(req))),
      ),
    },
  };
}

const NONE = 'There is no previous secret that still works.';
const ENDED: Notice = { tone: 'success', text: 'The previous secret no longer works.' };
const ROTATION_ADVICE = 'If you create another one, the secret before that change ends at once.';
const END_ADVICE = 'The previous secret is now the one before that change.';
