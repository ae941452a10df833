/** Console page for dynamic client registration: makes initial access tokens and shows them once. */
import express from 'express';
import type { ResourceParts } from './parts.ts';

export function createRegistrationPages(parts: ResourceParts): express.Router {
  const { issuer, reveals, visitor, show, initialAccessToken } = parts;
  const router = express.Router();
  router.get('/', (_req, res) => {
    const secret = reveals.take(`initial ${visitor(res).account.id}`);
    show(res, 'registration', { title: 'Dynamic registration', endpoint: `${issuer}/register`, secret });
  });
  router.post('/', async (_req, res) => {
    reveals.keep(`initial ${visitor(res).account.id}`, await initialAccessToken());
    res.redirect(303, '/console/registration');
  });
  return router;
}
