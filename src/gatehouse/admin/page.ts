/** Pages of the administration. Resources return their data; the menu, notices and frame are added here. */
import type { Request, RequestHandler, Response } from 'express';
import type { Flash } from '../../shared/pages/flash.ts';
import type { FormPage } from '../../shared/pages/form.ts';
import type { FieldFault, Notice, PageData, PageName, SignedInFrame } from '../../shared/pages/page-data.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import type { AuditTrail } from '../audit/trail.ts';
import { type ListResult, type ListSource, listFor, type PageList } from './list.ts';

declare module '../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/parts/new-secret': AdminPageData & { menuPath: string; newSecret: NewSecret; next: string };
  }
}

/** A tab leads to `path` below `/admin`. */
export type Menu = readonly {
  label: string;
  icon: string;
  tabs: readonly { path: string; label: string }[];
}[];

/** `tourUrl` is set only in the demo. */
interface AdminFrame {
  menu: Menu;
  tourUrl: string | undefined;
}

/** Data of every page, in addition to that of its resource. */
export interface AdminPageData {
  page: SignedInFrame & AdminFrame;
  notice?: Notice | undefined;
}

export interface AdminPageOfList extends AdminPageData {
  list: PageList;
}

/** `form` is the submitted form, if it led to this page: with faults, or to its next step. */
export interface PageRequest<Form> {
  req: Request;
  res: Response;
  form: Form | undefined;
}

/** `faults` are those of the form on the page. */
export type PageContent<K extends PageName> = Omit<PageData[K], keyof AdminPageData> & {
  title: string;
  faults?: readonly FieldFault[];
};

interface AdminPage<Form> {
  handler: RequestHandler;
  /** Returns where the page shows this form. @param url of the page */
  at(url: string, form: Form): FormPage;
}

export interface AdminPages {
  menu: Menu;
  redirectAfter: Pages['redirectAfter'];
  redirectToForm: Pages['redirectToForm'];
  /** Creates a page. @param contentOf returns undefined if it has sent the response itself */
  page<K extends PageName, Form>(
    name: K,
    contentOf: (request: PageRequest<Form>) => Promise<PageContent<K> | undefined>,
  ): AdminPage<Form>;
  /** Reads the requested page of the list. @returns undefined if the export was requested and sent */
  list<
    Item,
    Query extends { after?: string | undefined; limit: number },
    Result extends { items: Item[]; next?: string },
  >(req: Request, res: Response, source: ListSource<Item, Query, Result>): Promise<ListResult<Result> | undefined>;
  /**
   * Handles a form without fields: does the work once, even for a double click, then redirects to `url` with the flash.
   */
  button(work: (req: Request) => Promise<{ url: string; flash: Flash }>): RequestHandler;
}

export function createAdminPages(parts: {
  pages: Pages;
  frame: AdminFrame;
  trail: Pick<AuditTrail, 'append'>;
}): AdminPages {
  const { pages, frame, trail } = parts;
  return {
    menu: frame.menu,
    redirectAfter: pages.redirectAfter,
    redirectToForm: pages.redirectToForm,
    list: (req, res, source) => listFor(req, res, { ...source, trail }),

    page<K extends PageName, Form>(
      name: K,
      contentOf: (request: PageRequest<Form>) => Promise<PageContent<K> | undefined>,
    ): AdminPage<Form> {
      const handler = async (req: Request, res: Response): Promise<void> => {
        const { status, form } = (await pages.keptForm(req)) ?? {};
        const content = await contentOf({ req, res, form: form as Form | undefined });
        if (!content) return;
        if (status !== undefined) res.status(status);
        const flash = await pages.flashOf(req);
        const { title, faults, ...data } = content;
        const page = { ...pages.signedInFrame(req, title, faults), ...frame };
        const { notice, newSecret } = flash;
        if (newSecret) {
          // Nothing beside it leads away before it is stored.
          const [, , menuPath = ''] = req.path.split('/');
          const next = page.basePath + req.path;
          return pages.send(res, 'admin/parts/new-secret', { page, notice, newSecret, menuPath, next });
        }
        // TypeScript cannot infer that this adds the members that PageContent omits.
        pages.send(res, name, { ...data, ...flash, page } as unknown as PageData[K]);
      };
      return { handler, at: (url, form) => ({ url, form }) };
    },

    button: (work) => (req, res) => pages.redirectAfter(req, res, () => work(req)),
  };
}
