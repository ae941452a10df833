/** The console pages for API tokens: list, create, show once, revoke. */
import express, { type Request, type Response } from 'express';
import { z } from 'zod';
import { type FormView, formHandler } from '../../shared/pages/form.ts';
import { FULL_SCOPE, meaningsOf, READ_SCOPE } from '../scopes.ts';
import { tokenScopesSchema } from '../seed.ts';
import { faultAt } from './forms.ts';
import type { ResourceParts } from './parts.ts';

const HOUR_MS = 60 * 60 * 1000;

const LIFETIMES = [
  { value: '', text: 'Until revoked', hours: undefined },
  { value: 'hour', text: '1 hour', hours: 1 },
  { value: 'day', text: '1 day', hours: 24 },
  { value: 'month', text: '30 days', hours: 30 * 24 },
  { value: 'year', text: '365 days', hours: 365 * 24 },
];

const tokenForm = z.object({
  name: z.string().trim().min(1, 'Enter a name.').max(100, 'Enter a name of at most 100 characters.'),
  user: z.string(),
  scopes: tokenScopesSchema,
  lifetime: z
    .string()
    .refine((value) => LIFETIMES.some((option) => option.value === value), 'Choose one from the list.'),
});
type Form = FormView<typeof tokenForm>;

export function createTokenPages({
  accounts,
  apiTokens,
  oneTimeSecrets,
  forms,
  visitor,
  show,
  now,
}: ResourceParts): express.Router {
  const router = express.Router();
  const loginOf = (accountId: string) => accounts.byId(accountId)?.login ?? accountId;

  const showAll = (req: Request, res: Response) =>
    show(res, 'tokens', {
      title: 'API tokens',
      tokens: apiTokens.all.toReversed(),
      users: accounts.all.filter(({ disabled }) => !disabled),
      scopes: [READ_SCOPE, FULL_SCOPE].map((name) => ({ name, meaning: meaningsOf(name)[0] })),
      lifetimes: LIFETIMES,
      loginOf,
      form: forms.keptForm<Form>(req, res) ?? NEW_TOKEN,
    });

  const create = formHandler({
    pages: forms.pages,
    schema: tokenForm,
    async work({ res }, { name, scopes, user, lifetime }) {
      const account = accounts.byId(user);
      if (account === undefined) throw faultAt('user', 'Choose one from the list.');
      const hours = LIFETIMES.find(({ value }) => value === lifetime)?.hours;
      const expiresAtMs = hours === undefined ? undefined : now() + hours * HOUR_MS;
      const createdBy = visitor(res as Response).account.login;
      const { apiToken, token } = apiTokens.create({ name, scopes, accountId: account.id, expiresAtMs, createdBy });
      oneTimeSecrets.put(`token ${apiToken.id}`, token);
      return { url: `/console/tokens/${apiToken.id}`, flash: {} };
    },
    page: (_req, form) => ({ url: '/console/tokens', form }),
  });

  router.get('/', showAll);
  router.post('/', create);

  router.get('/:id', (req, res) => {
    const token = apiTokens.byId(req.params.id);
    if (token === undefined) return show(res.status(404), 'gone', { title: 'No such token' });
    show(res, 'token', { title: token.name, token, secret: oneTimeSecrets.take(`token ${token.id}`), loginOf });
  });
  router.post('/:id/revoke', (req, res) => {
    apiTokens.revoke(req.params.id);
    res.redirect(303, `/console/tokens/${req.params.id}`);
  });
  return router;
}

const NEW_TOKEN: Form = { values: { name: '', user: '', scopes: [READ_SCOPE], lifetime: '' }, faults: [] };
