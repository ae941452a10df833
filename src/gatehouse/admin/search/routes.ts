/** The search of the administration, in every kind of record. */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { formField, queryField } from '../../../shared/http/body.ts';
import { operation } from '../../../shared/http/operation.ts';
import { adminPath } from '../admin-path.ts';
import type { AdminPageData } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { type Finder, MAX_RESULTS } from './finder.ts';
import { finders } from './finders.ts';
import { searchable } from './searchable.ts';

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
      'an id, a reference, an e-mail address, the beginning of a name, or the first 16 characters of a token; the rest of a token is secret',
    ),
});

const groupJson = z.object({
  kind: z.string(),
  items: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      detail: z.string().nullable(),
      exact: z.boolean().describe('q equals its id, name or address'),
      path: z.string().describe('the path of its page, below the public address'),
    }),
  ),
  more: z.boolean().describe('there are more items'),
});

const searchJson = z.object({
  q: z.string().describe('the searched text, without secrets'),
  groups: z.array(groupJson).describe('the kinds with at least one result'),
});

type SearchGroup = z.output<typeof groupJson> & {
  title: string;
  /** The path of the list with further results. */
  list: string | undefined;
};

/** Creates the routes. @param resourceFinders the finders of resources with stored records */
export function searchRoutes(parts: AdminParts, resourceFinders: readonly Finder[]) {
  const { pages, publicUrl } = parts;
  const kinds = finders(parts, resourceFinders);
  const address = (q: string) => `${publicUrl.basePath}/admin/search?q=${encodeURIComponent(q)}`;

  const search = async (q: string): Promise<SearchGroup[]> => {
    if (q === '') return [];
    const groups = await Promise.all(
      kinds.map(async ({ kind, title, find, list }) => {
        const results = await find(q);
        return { kind, title, items: results.slice(0, MAX_RESULTS), more: results.length > MAX_RESULTS, list: list(q) };
      }),
    );
    return groups.filter(({ items }) => items.length > 0);
  };

  const resultsPage = pages.page('admin/search/page', async ({ req, res }) => {
    const entered = queryField(req, 'q') ?? '';
    const q = searchable(entered);
    if (q !== entered) {
      res.redirect(303, address(q));
      return undefined;
    }
    const groups = await search(q);
    const results = groups.flatMap(({ kind, items }) => items.map((result) => ({ ...result, kind })));
    // The name of a page may also occur in names and addresses of other records.
    const [exactResult, ...others] = results.filter(({ exact }) => exact);
    const isPage = exactResult?.kind === 'page' && others.length === 0;
    const target = isPage ? exactResult : results.length === 1 ? results[0] : undefined;
    if (target) {
      res.redirect(303, `${publicUrl.basePath}${target.path}`);
      return undefined;
    }
    return { title: q === '' ? 'Search' : `Search: ${q}`, q, groups };
  });

  /** The search field in the header posts a form, so a pasted token does not appear in a URL. */
  const submit: RequestHandler = (req, res) =>
    res.redirect(303, address(searchable(formField(req.body, 'search') ?? '')));

  /** Redirects the search and the filters of a list to the list. */
  const submitList: RequestHandler = (req, res) => {
    const list = adminPath(formField(req.body, 'list'), publicUrl);
    if (list === undefined) throw unknownList();
    const { _csrf, list: _list, ...fields } = req.body as Record<string, unknown>;
    const parameters = Object.keys(fields).flatMap((name) => {
      const value = searchable(formField(fields, name) ?? '');
      return value === '' ? [] : [[name, value]];
    });
    res.redirect(303, `${list}?${new URLSearchParams(parameters)}`);
  };

  return {
    page: resultsPage.handler,
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
