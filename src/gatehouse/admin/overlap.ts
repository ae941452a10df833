/** Ends the time after a rotation in which the previous secret still works, by page and by API. */
import type { RequestHandler } from 'express';
import type { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { type DescribedHandler, operation } from '../../shared/http/operation.ts';
import type { FormView } from '../../shared/pages/form.ts';
import type { Notice } from '../../shared/pages/page-data.ts';
import type { AuditEvent } from '../audit/kinds.ts';
import { confirmation } from './confirmation.ts';
import type { rotationForm } from './credential.ts';
import type { AdminPageData } from './page.ts';
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

interface Rotated {
  id: string;
  overlapEndsAt: number | undefined;
}

export function overlapEnd<T extends Rotated, S extends z.ZodObject>(
  parts: Pick<AdminParts, 'pages' | 'publicUrl'>,
  options: {
    resource: Resource<T, S>;
    schema: S;
    /** The list below `/admin`. */
    path: string;
    nameOf(item: T): string;
    event: AuditEvent;
    consequence: string;
    /** Returns undefined if the item is gone. */
    end(id: string): Promise<T | undefined>;
  },
): { page: RequestHandler; byForm: RequestHandler; byApi: DescribedHandler } {
  const { resource, schema, path, nameOf, event, consequence, end } = options;

  /** @throws AppError `invalid_request` if there is no previous secret */
  const endFor = async (req: Parameters<typeof resource.find>[0], item: T): Promise<T> => {
    if (item.overlapEndsAt === undefined) throw new AppError('invalid_request', { detail: NONE });
    const target = { id: item.id, name: nameOf(item) };
    return resource.audited(req, event, target, () => end(item.id), { previousSecret: 'ended' });
  };

  const { page, form } = confirmation<T>(parts, {
    menuPath: path,
    find: resource.find,
    home: ({ id }) => `${path}/${id}`,
    questionFor: (item) => ({
      action: 'End the previous secret of',
      name: nameOf(item),
      consequences: [consequence, 'This cannot be undone.'],
      verb: 'End previous secret',
    }),
    async work(req, item) {
      await endFor(req, item);
      return { url: `${resource.home}/${item.id}`, flash: { notice: ENDED } };
    },
  });

  return {
    page,
    byForm: form,
    byApi: operation(
      { summary: 'End the previous secret now, before the end of the overlap', response: schema },
      async ({ req }) => resource.toJson(await endFor(req, await resource.find(req))),
    ),
  };
}

const NONE = 'There is no previous secret that still works.';
const ENDED: Notice = { tone: 'success', text: 'The previous secret no longer works.' };
