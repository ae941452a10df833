/** The page of a document, which its `link` at the platform opens. */
import express from 'express';
import sanitizeHtml from 'sanitize-html';
import type { OwnSignIn } from './own-sign-in.ts';
import type { Pages } from './pages.ts';
import type { Threads } from './threads.ts';

interface Parts {
  ownSignIn: OwnSignIn;
  threads: Threads;
  pages: Pages;
}

export function createThreadPages({ ownSignIn, threads, pages }: Parts): express.Router {
  const router = express.Router();
  router.get('/:id', ownSignIn.requireUser, (req, res) => {
    const document = threads.find(String(req.params.id), ownSignIn.visitor(res).account.id);
    if (document === undefined) {
      const text = 'There is no such document, or it is not shared with you.';
      return pages.send(res.status(404), 'message', { title: 'Not here', text });
    }
    const { thread, html } = document;
    // The heading of the page already shows the title.
    const isTitle = ({ tag, text }: sanitizeHtml.IFrame) => tag === 'h1' && text.trim() === thread.title;
    const content = sanitizeHtml(html, { exclusiveFilter: isTitle });
    pages.send(res, 'thread', { title: thread.title, thread, content, wide: true });
  });
  return router;
}
