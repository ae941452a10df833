/** Owns the console's pages for API tokens: for whom, with which scopes, until when; shown once; revoked. */
import express, { type Response } from 'express';
import { z } from 'zod';
import { type FieldFaults, faultsByField, fieldList, fields } from '../form-fields.ts';
import { FULL_SCOPE, meaningsOf, READ_SCOPE } from '../scopes.ts';
import { tokenScopesSchema } from '../seed.ts';
import type { NounParts } from './console.ts';

const HOUR_MS = 60 * 60 * 1000;

const LIFETIMES = [
  { value: '', text: 'Until revoked', hours: undefined },
  { value: 'hour', text: '1 hour', hours: 1 },
  { value: 'day', text: '1 day', hours: 24 },
  { value: 'month', text: '30 days', hours: 30 * 24 },
  { value: 'year', text: '365 days', hours: 365 * 24 },
];

const formSchema = z.object({
  name: z.string().trim().min(1, 'needs a name').max(100, 'must be 100 characters or less'),
  user: z.string(),
  scopes: tokenScopesSchema,
  lifetime: z.string().refine((value) => LIFETIMES.some((one) => one.value === value), 'must be one of the list'),
});

export function createTokenPages({ accounts, apiTokens, reveals, visitor, show, now }: NounParts): express.Router {
  const router = express.Router();
  const loginOf = (accountId: string) => accounts.byId(accountId)?.login ?? accountId;

  const showAll = (res: Response, form: Record<string, unknown>, faults: FieldFaults) =>
    show(res, 'tokens', {
      title: 'API tokens',
      tokens: apiTokens.all.toReversed(),
      users: accounts.all.filter(({ disabled }) => !disabled),
      scopes: [READ_SCOPE, FULL_SCOPE].map((name) => ({ name, meaning: meaningsOf(name)[0] })),
      lifetimes: LIFETIMES,
      loginOf,
      form: { name: '', ...form },
      faults,
    });

  router.get('/', (_req, res) => showAll(res, { scopes: [READ_SCOPE] }, {}));
  router.post('/', (req, res) => {
    const form = { ...fields(req), scopes: fieldList(req, 'scopes') };
    const read = formSchema.safeParse(form);
    if (!read.success) return showAll(res.status(422), form, faultsByField(read.error));
    const { name, scopes, user, lifetime } = read.data;
    const account = accounts.byId(user);
    if (account === undefined) return showAll(res.status(422), form, { user: ['must be one of the list'] });
    const hours = LIFETIMES.find((one) => one.value === lifetime)?.hours;
    const expiresAtMs = hours === undefined ? undefined : now() + hours * HOUR_MS;
    const madeBy = visitor(res).account.login;
    const { apiToken, token } = apiTokens.make({ name, scopes, accountId: account.id, expiresAtMs, madeBy });
    reveals.keep(`token ${apiToken.id}`, token);
    res.redirect(303, `/console/tokens/${apiToken.id}`);
  });

  router.get('/:id', (req, res) => {
    const token = apiTokens.byId(req.params.id);
    if (token === undefined) return show(res.status(404), 'gone', { title: 'No such token' });
    show(res, 'token', { title: token.name, token, secret: reveals.take(`token ${token.id}`), loginOf });
  });
  router.post('/:id/revoke', (req, res) => {
    apiTokens.revoke(req.params.id);
    res.redirect(303, `/console/tokens/${req.params.id}`);
  });
  return router;
}
