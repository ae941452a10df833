/** The console pages for users: list, add, change, set a second factor, disable, sign out everywhere. */
import express, { type Request, type Response } from 'express';
import { z } from 'zod';
import { type FormView, formHandler, lines, ticked } from '../../shared/pages/form.ts';
import type { Account } from '../accounts.ts';
import { userSchema } from '../seed.ts';
import { newTotpSecret, otpauthUrl } from '../totp.ts';
import { faultAt } from './forms.ts';
import type { ResourceParts } from './parts.ts';

const { name, groups, networks, password, login, kind } = userSchema.shape;
const changeForm = z.object({
  name,
  groups: lines.pipe(groups.unwrap()),
  networks: lines.pipe(networks.unwrap()),
  restrictTokens: ticked,
  password: z
    .string()
    .transform((typed) => typed || undefined)
    .pipe(password),
});
const newForm = z.object({ login: z.string().trim().pipe(login), kind, ...changeForm.shape, secondFactor: ticked });

type ChangeForm = FormView<typeof changeForm>;
type NewForm = FormView<typeof newForm>;

export function createUserPages(parts: ResourceParts): express.Router {
  const { accounts, approvals, apiTokens, endSessionsOf, forms, show } = parts;
  const router = express.Router();
  const savedUser = (id: string) => ({ url: `/console/users/${id}`, flash: {} });

  const showAll = (req: Request, res: Response) => {
    const form = forms.keptForm<NewForm>(req, res) ?? NEW_USER;
    show(res, 'users', { title: 'Users', users: accounts.all, form });
  };

  const add = formHandler({
    pages: forms.pages,
    schema: newForm,
    secrets: ['password'],
    async work(_req, { secondFactor, ...input }) {
      if (accounts.byLogin(input.login)) throw faultAt('login', 'Another user already has this address.');
      return savedUser(accounts.add({ ...input, totpSecret: secondFactor ? newTotpSecret() : undefined }).id);
    },
    page: (_req, form) => ({ url: '/console/users', form }),
  });
  const change = formHandler({
    pages: forms.pages,
    schema: changeForm,
    secrets: ['password'],
    async work(req, input) {
      const id = String(req.params.id);
      accounts.change(id, input);
      return savedUser(id);
    },
    page: (req, form) => ({ url: `/console/users/${encodeURIComponent(String(req.params.id))}`, form }),
  });

  router.get('/', showAll);
  router.post('/', add);
  router.get('/:id', (req, res) => showUser(parts, req, res));
  router.post('/:id', change);

  const addAction = (path: string, act: (id: string) => unknown) =>
    router.post(`/:id/${path}`, async (req, res) => {
      await act(req.params.id);
      res.redirect(303, `/console/users/${req.params.id}`);
    });
  addAction('second-factor', (id) => accounts.change(id, { totpSecret: newTotpSecret() }));
  addAction('sign-out', endSessionsOf);
  addAction('enable', (id) => accounts.change(id, { disabled: false }));
  addAction('disable', async (id) => {
    accounts.change(id, { disabled: true });
    approvals.revokeAll(id);
    for (const { id: tokenId, accountId } of apiTokens.all) if (accountId === id) apiTokens.revoke(tokenId);
    await endSessionsOf(id);
  });
  return router;
}

function showUser({ accounts, apiTokens, approvals, forms, show }: ResourceParts, req: Request, res: Response): void {
  const user = accounts.byId(String(req.params.id));
  if (user === undefined) {
    show(res.status(404), 'gone', { title: 'No such user' });
    return;
  }
  show(res, 'user', {
    title: user.name,
    user,
    form: forms.keptForm<ChangeForm>(req, res) ?? { values: valuesOf(user), faults: [] },
    ownPassword: accounts.hasOwnPassword(user.id),
    otpauth: user.totpSecret && otpauthUrl(user.totpSecret, user.login),
    tokens: apiTokens.all.filter(({ accountId }) => accountId === user.id),
    allowed: approvals.of(user.id),
  });
}

function valuesOf(user: Account): ChangeForm['values'] {
  return {
    name: user.name,
    groups: user.groups.join('\n'),
    networks: user.networks.join('\n'),
    restrictTokens: user.restrictTokens ? 'yes' : '',
    password: '',
  };
}

const NEW_USER: NewForm = {
  values: {
    login: '',
    kind: 'person',
    name: '',
    groups: '',
    networks: '',
    restrictTokens: '',
    password: '',
    secondFactor: '',
  },
  faults: [],
};
