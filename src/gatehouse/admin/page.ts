/** The pages of the administration: a resource returns its data, and the menu, notices and frame are added here. */
import type { Request, RequestHandler, Response } from 'express';
import type { Flash } from '../../shared/pages/flash.ts';
import type {
  FieldFault,
  MadeSecret,
  Notice,
  PageData,
  PageName,
  SignedInFrame,
} from '../../shared/pages/page-data.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import type { ListView } from './list-page.ts';

/** The address of a tab is `/admin` and its `path`, unless `href` names a page outside the administration. */
export type Menu = readonly {
  label: string;
  icon: string;
  tabs: readonly { path: string; label: string; href?: string }[];
}[];

/** What the frame of the administration adds. `tourUrl`: only in the demo. */
interface AdminFrame {
  menu: Menu;
  tourUrl: string | undefined;
}

/** What every page receives beside the data of its resource. */
export interface AdminPageData {
  page: SignedInFrame & AdminFrame;
  notice?: Notice | undefined;
  made?: MadeSecret | undefined;
}

/** What a page with a list receives. */
export interface AdminPageOfList extends AdminPageData {
  list: ListView;
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

export function createAdminPages(pages: Pages, frame: AdminFrame) {
  return {
    redirectAfter: pages.redirectAfter,
    menu: frame.menu,

    /**
     * `handler` sends the page; `show`, for `formHandler`, sends it with a form that has faults.
     * @param contentOf returns undefined if it has sent the response itself
     */
    page<K extends PageName, Form>(
      name: K,
      contentOf: (request: PageRequest<Form>) => Promise<PageContent<K> | undefined>,
    ) {
      const show = async (req: Request, res: Response, form?: Form): Promise<void> => {
        const content = await contentOf({ req, res, form });
        if (!content) return;
        const flash = await pages.flashOf(req);
        const { title, faults, ...data } = content;
        const page = { ...pages.signedInFrame(req, title, faults), ...frame };
        // TypeScript cannot tell that this adds again what PageContent leaves out.
        pages.send(res, name, { ...data, ...flash, page } as unknown as PageData[K]);
      };
      const handler: RequestHandler = (req, res) => show(req, res);
      return { handler, show };
    },

    /** Handles a form without fields: does the work, once for a double click, then redirects to the page that shows the flash. */
    button(work: (req: Request) => Promise<{ url: string; flash: Flash }>): RequestHandler {
      return (req, res) => pages.redirectAfter(req, res, () => work(req));
    },
  };
}
