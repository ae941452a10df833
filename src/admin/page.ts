/** The pages of the administration: a resource returns its data, and the menu, notices and frame are added here. */
import type { Request, RequestHandler, Response } from 'express';
import type { Flash } from '../pages/flash.ts';
import type { FieldFault, MadeSecret, Notice, PageData, PageName, SignedInFrame } from '../pages/page-data.ts';
import type { Pages } from '../pages/pages.ts';

/** `path`: below `/admin`. */
type Menu = readonly { path: string; label: string }[];

/** What every page receives beside the data of its resource. */
export interface AdminPageData {
  page: SignedInFrame & { menu: Menu };
  notice?: Notice | undefined;
  made?: MadeSecret | undefined;
}

/** What a page with a list receives. */
export interface AdminListData extends AdminPageData {
  q: string;
  next: string | undefined;
}

/** `form`: what was typed, if the page is shown again because of a fault. */
export interface PageRequest<Form> {
  req: Request;
  res: Response;
  form: Form | undefined;
}

/** `faults`: those of the form on the page. */
export type PageContent<K extends PageName> = Omit<PageData[K], keyof AdminPageData> & {
  title: string;
  faults?: readonly FieldFault[];
};

export type AdminPages = ReturnType<typeof createAdminPages>;

export function createAdminPages(pages: Pages, menu: Menu) {
  return {
    redirectAfter: pages.redirectAfter,

    /**
     * `handler` sends the page; `show`, for `formHandler`, sends it with a form that has faults.
     * @param contentOf returns undefined if it has sent the response itself
     */
    page<K extends PageName, Form>(
      name: K,
      contentOf: (request: PageRequest<Form>) => Promise<PageContent<K> | undefined>,
    ) {
      const show = async (req: Request, res: Response, form?: Form): Promise<void> => {
        const [content, flash] = await Promise.all([contentOf({ req, res, form }), pages.flashOf(req)]);
        if (!content) return;
        const { title, faults, ...data } = content;
        const page = { ...pages.signedInFrame(req, title, faults), menu };
        // TypeScript cannot tell that this adds again what PageContent leaves out.
        pages.send(res, name, { ...data, ...flash, page } as unknown as PageData[K]);
      };
      const handler: RequestHandler = (req, res) => show(req, res);
      return { handler, show };
    },

    /** Handles a form without fields: does the work, then redirects to the page that shows the flash. */
    button(work: (req: Request) => Promise<{ url: string; flash: Flash }>): RequestHandler {
      return async (req, res) => {
        const { url, flash } = await work(req);
        await pages.redirect(req, res, url, flash);
      };
    },
  };
}
