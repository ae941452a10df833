/** The page on which a user sees and revokes the apps that they allowed. */
import express from 'express';
import type { Approvals } from './approvals.ts';
import { fields } from './form-fields.ts';
import type { OwnSignIn } from './own-sign-in.ts';
import type { Pages } from './pages.ts';
import { meaningsOf } from './scopes.ts';

interface Parts {
  ownSignIn: OwnSignIn;
  approvals: Approvals;
  pages: Pages;
}

export function createAccountPages({ ownSignIn, approvals, pages }: Parts): express.Router {
  const router = express.Router();
  router.use(express.urlencoded({ extended: false, limit: '16kb' }), ownSignIn.requireUser);

  router.get('/', (_req, res) => {
    const { account, xsrf } = ownSignIn.visitor(res);
    const allowed = approvals.of(account.id).map((approval) => ({ ...approval, meanings: meaningsOf(approval.scope) }));
    pages.send(res, 'account', { title: 'Apps you allowed', account, xsrf, allowed });
  });

  router.post('/revoke', (req, res) => {
    approvals.revoke(ownSignIn.visitor(res).account.id, fields(req).app ?? '');
    res.redirect(303, '/account');
  });

  return router;
}
