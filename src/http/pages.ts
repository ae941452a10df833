/** Owns the sending of HTML pages: the frame that all share, and who is named in it. */
import type { Request, Response } from 'express';
import type { Config } from '../config.ts';
import type { AdminPageData, AdminPageName, PageData, PageFrame, PageName, SignedInFrame } from './page-data.ts';
import { viewerOf } from './viewer.ts';
import type { Views } from './views.ts';

export interface Pages {
  frame(req: Request, title: string): PageFrame;
  /** For routes behind a guard that demands a user. */
  signedInFrame(req: Request, title: string): SignedInFrame;
  send<K extends PageName>(res: Response, name: K, data: PageData[K]): void;
  sendAdmin<K extends AdminPageName>(res: Response, name: K, data: AdminPageData[K]): void;
}

export function createPages(parts: { views: Views; config: Pick<Config, 'publicUrl' | 'pages'> }): Pages {
  const { views, config } = parts;
  const base = (title: string) => ({
    title,
    basePath: config.publicUrl.basePath,
    operatorName: config.pages.operatorName,
    supportContact: config.pages.supportContact,
  });
  const signedInFrame = (req: Request, title: string): SignedInFrame => {
    const { user, csrfToken } = viewerOf(req);
    return {
      ...base(title),
      user: { name: user.name ?? user.email ?? user.subject, email: user.email, admin: user.admin },
      csrfToken,
    };
  };

  return {
    frame: (req, title) => (req.context.viewer ? signedInFrame(req, title) : base(title)),
    signedInFrame,
    send(res, name, data) {
      res.type('html').send(views.render(name, data));
    },
    sendAdmin(res, name, data) {
      res.type('html').send(views.renderAdmin(name, data));
    },
  };
}
