/** The search of the administration: one text, looked for in every kind of record. */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { formField, queryField } from '../../../shared/http/body.ts';
import { operation } from '../../../shared/http/operation.ts';
import { adminPath } from '../admin-path.ts';
import type { AdminPageData } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { type Finder, MAX_HITS } from './finder.ts';
import { finders } from './finders.ts';
import { searchable } from './typed.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/search/page': AdminPageData & { q: string; groups: readonly SearchGroup[] };
  }
}

const searchQuery = z.strictObject({
  q: z
    .string()
    .max(2_000)
    .default('')
    .describe(
      'an id, a reference, an e-mail address, or the beginning of a name; of a token only its first 16 characters: the rest is secret',
    ),
});

const groupJson = z.object({
  kind: z.string(),
  items: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      detail: z.string().nullable(),
      exact: z.boolean().describe('q is its id, name or address, and not only a part of it'),
      path: z.string().describe('of its page, below the public address'),
    }),
  ),
  more: z.boolean().describe('there are others'),
});

const searchJson = z.object({
  q: z.string().describe('the text that was searched for, without secrets'),
  groups: z.array(groupJson).describe('the kinds of which something was found'),
});

type SearchGroup = z.output<typeof groupJson> & {
  title: string;
  /** The path of the list with the others. */
  list: string | undefined;
};

/** @param ofResources finders of the resources with stored records */
export function searchRoutes(parts: AdminParts, ofResources: readonly Finder[]) {
  const { pages, publicUrl } = parts;
  const kinds = finders(parts, ofResources);
  const address = (q: string) => `${publicUrl.basePath}/admin/search?q=${encodeURIComponent(q)}`;

  const search = async (q: string): Promise<SearchGroup[]> => {
    if (q === '') return [];
    const groups = await Promise.all(
      kinds.map(async ({ kind, title, find, list }) => {
        const hits = await find(q);
        return { kind, title, items: hits.slice(0, MAX_HITS), more: hits.length > MAX_HITS, list: list(q) };
      }),
    );
    return groups.filter(({ items }) => items.length > 0);
  };

  const results = pages.page('admin/search/page', async ({ req, res }) => {
    const typed = queryField(req, 'q') ?? '';
    const q = searchable(typed);
    if (q !== typed) {
      res.redirect(303, address(q));
      return undefined;
    }
    const groups = await search(q);
    const hits = groups.flatMap(({ kind, items }) => items.map((hit) => ({ ...hit, kind })));
    // The words that name a page also occur in names and addresses.
    const [named, ...others] = hits.filter(({ exact }) => exact);
    const isPage = named?.kind === 'page' && others.length === 0;
    const only = isPage ? named : hits.length === 1 ? hits[0] : undefined;
    if (only) {
      res.redirect(303, `${publicUrl.basePath}${only.path}`);
      return undefined;
    }
    return { title: q === '' ? 'Search' : `Search: ${q}`, q, groups };
  });

  /** The field of the header sends a form, so that a token that is pasted into it is in no URL. */
  const submit: RequestHandler = (req, res) =>
    res.redirect(303, address(searchable(formField(req.body, 'search') ?? '')));

  /** As `submit`, for the search and the filters of one list: leads to the list with the fields that are set. */
  const submitList: RequestHandler = (req, res) => {
    const list = adminPath(formField(req.body, 'list'), publicUrl);
    if (list === undefined) throw unknownList();
    const { _csrf, list: _list, ...fields } = req.body as Record<string, unknown>;
    const set = Object.keys(fields).flatMap((name) => {
      const value = searchable(formField(fields, name) ?? '');
      return value === '' ? [] : [[name, value]];
    });
    res.redirect(303, `${list}?${new URLSearchParams(set)}`);
  };

  return {
    page: results.handler,
    submit,
    submitList,
    api: operation(
      {
        summary: 'Search users, connected apps, connections, sessions, tokens, sign-ins, audit entries and more',
        query: searchQuery,
        response: searchJson,
      },
      async ({ query }) => {
        const q = searchable(query.q);
        return { q, groups: await search(q) };
      },
    ),
  };
}

const unknownList = () =>
  new AppError('invalid_request', { detail: 'This form names no list of the administration. Open the list again.' });
