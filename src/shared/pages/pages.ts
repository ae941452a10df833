/** The pages of a program: HTML in a shared frame, one-time data after redirects, and forms that count once. */
import { randomUUID } from 'node:crypto';
import type { Request, Response } from 'express';
import type { Config } from '../config/config.ts';
import { PAGE_POLICY } from '../http/security-headers.ts';
import { sessionOf } from '../sessions/guards.ts';
import type { SealedJson } from '../storage/sealed-json.ts';
import type { Store } from '../storage/store.ts';
import { createFlashes, type Flash, type Flashes } from './flash.ts';
import { createKeptForms, type KeptForm, type KeptForms } from './kept-forms.ts';
import type { FieldFault, PageData, PageFrame, PageName, SignedInFrame } from './page-data.ts';
import { createSubmissions, type Submissions } from './submissions.ts';
import { createViews, type Views } from './views.ts';

export type PageConfig = Pick<Config, 'publicUrl' | 'pages'>;

export interface Pages {
  frame(req: Request, title: string): PageFrame;
  /** The route must require a user. @param faults the faults of the form on the page */
  signedInFrame(req: Request, title: string, faults?: readonly FieldFault[]): SignedInFrame;
  send<K extends PageName>(res: Response, name: K, data: PageData[K]): void;
  /** Sets the headers of a page, for one that is sent in another way. */
  prepare(res: Response): void;
  render: Views['render'];
  /** Redirects with 303 to a page that shows the flash once. */
  redirect(req: Request, res: Response, url: string, flash: Flash): Promise<void>;
  /** Does the work of a form only once, even if the form is sent twice, and then redirects like `redirect`. */
  redirectAfter(req: Request, res: Response, work: () => Promise<{ url: string; flash: Flash }>): Promise<void>;
  flashOf(req: Request): Promise<Flash>;
  /** Redirects with 303 to a page that shows the form. @param url of that page, on this host */
  redirectToForm(req: Request, res: Response, url: string, keptForm: KeptForm): Promise<void>;
  /** Returns the form that redirected to this page. */
  keptForm(req: Request): Promise<KeptForm | undefined>;
}

export function createPages(parts: {
  storage: { store: Store; sealedJson: SealedJson };
  config: PageConfig;
  /** Absolute path of the program's templates. */
  views: string;
  /** The path of the only page of a program that has no menu. */
  home?: string;
  clock: () => number;
}): Pages {
  const { storage, config, views, home, clock } = parts;
  return createPageSender({
    views: createViews({ directories: [views], clock }),
    flashes: createFlashes(storage),
    submissions: createSubmissions(storage),
    keptForms: createKeptForms(storage),
    config,
    home,
  });
}

export function createPageSender(parts: {
  views: Views;
  flashes: Flashes;
  submissions: Submissions;
  keptForms: KeptForms;
  config: PageConfig;
  home?: string | undefined;
}): Pages {
  const { views, flashes, submissions, keptForms, config, home } = parts;
  const prepare = (res: Response) => void res.set('Content-Security-Policy', PAGE_POLICY).type('html');
  const base = (title: string) => ({
    title,
    basePath: config.publicUrl.basePath,
    operatorName: config.pages.operatorName,
    home,
    supportContact: config.pages.supportContact,
  });
  const signedInFrame: Pages['signedInFrame'] = (req, title, faults) => {
    const { user, csrfToken } = sessionOf(req);
    return {
      ...base(title),
      user: { id: user.id, name: user.name ?? user.email ?? user.subject, email: user.email, admin: user.admin },
      csrfToken,
      formId: randomUUID(),
      faults,
    };
  };

  return {
    frame: (req, title) => (req.context.session ? signedInFrame(req, title) : base(title)),
    signedInFrame,
    async redirect(req, res, url, flash) {
      res.redirect(303, await flashes.save(req, url, flash));
    },
    async redirectAfter(req, res, work) {
      const workAndSave = async () => {
        const { url, flash } = await work();
        return flashes.save(req, url, flash);
      };
      res.redirect(303, await submissions.once(req, workAndSave));
    },
    flashOf: flashes.take,
    async redirectToForm(req, res, url, keptForm) {
      res.redirect(303, await keptForms.save(req, url, keptForm));
    },
    keptForm: keptForms.read,
    send(res, name, data) {
      prepare(res);
      res.send(views.render(name, data));
    },
    prepare,
    render: views.render,
  };
}
