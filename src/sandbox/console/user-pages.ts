/** Owns the console's pages for users: provisioning, groups and networks, second factor, disabling, signing out everywhere. */
import express, { type Request, type Response } from 'express';
import type { Account } from '../accounts.ts';
import { type FieldFaults, faultsByField, fields, lines } from '../form-fields.ts';
import { userSchema } from '../seed.ts';
import { newTotpSecret, otpauthUrl } from '../totp.ts';
import type { NounParts } from './console.ts';

type Form = Record<string, string>;

const BLANK: Form = { login: '', kind: 'person', name: '', groups: '', networks: '' };

const changeSchema = userSchema.pick({ name: true, password: true, groups: true, networks: true });

export function createUserPages(parts: NounParts): express.Router {
  const { accounts, approvals, apiTokens, endSessionsOf, show } = parts;
  const router = express.Router();
  const showAll = (res: Response, form: Form, faults: FieldFaults) =>
    show(res, 'users', { title: 'Users', users: accounts.all, form: { ...BLANK, ...form }, faults });

  router.get('/', (_req, res) => showAll(res, {}, {}));
  router.post('/', (req, res) => {
    const form = fields(req);
    const read = userSchema.safeParse({ ...inputOf(form), login: form.login?.trim() ?? '', kind: form.kind });
    const faults = read.success ? {} : faultsByField(read.error);
    if (read.success && accounts.byLogin(read.data.login)) faults.login = ['belongs to somebody already'];
    if (!read.success || faults.login) return showAll(res.status(422), form, faults);
    const totpSecret = form.secondFactor ? newTotpSecret() : undefined;
    const account = accounts.add({ ...read.data, totpSecret });
    res.redirect(303, `/console/users/${account.id}`);
  });

  router.get('/:id', (req, res) => showUser(parts, req, res));
  router.post('/:id', (req, res) => {
    const form = fields(req);
    const read = changeSchema.safeParse(inputOf(form));
    if (!read.success) return showUser(parts, req, res.status(422), { form, faults: faultsByField(read.error) });
    accounts.change(req.params.id, read.data);
    res.redirect(303, `/console/users/${req.params.id}`);
  });

  const action = (path: string, act: (id: string) => unknown) =>
    router.post(`/:id/${path}`, async (req, res) => {
      await act(req.params.id);
      res.redirect(303, `/console/users/${req.params.id}`);
    });
  action('second-factor', (id) => accounts.change(id, { totpSecret: newTotpSecret() }));
  action('sign-out', endSessionsOf);
  action('enable', (id) => accounts.change(id, { disabled: false }));
  action('disable', async (id) => {
    accounts.change(id, { disabled: true });
    approvals.takeBackAll(id);
    for (const { id: tokenId, accountId } of apiTokens.all) if (accountId === id) apiTokens.revoke(tokenId);
    await endSessionsOf(id);
  });
  return router;
}

function showUser(
  { accounts, apiTokens, approvals, show }: NounParts,
  req: Request,
  res: Response,
  changed?: { form: Form; faults: FieldFaults },
): void {
  const user = accounts.byId(String(req.params.id));
  if (user === undefined) {
    show(res.status(404), 'gone', { title: 'No such user' });
    return;
  }
  const { form, faults } = changed ?? { form: formOf(user), faults: {} };
  show(res, 'user', {
    title: user.name,
    user,
    form: { ...BLANK, ...form },
    faults,
    ownPassword: accounts.hasOwnPassword(user.id),
    otpauth: user.totpSecret && otpauthUrl(user.totpSecret, user.login),
    tokens: apiTokens.all.filter(({ accountId }) => accountId === user.id),
    allowed: approvals.of(user.id),
  });
}

function formOf({ name, groups, networks }: Account): Form {
  return { name, groups: groups.join('\n'), networks: networks.join('\n') };
}

function inputOf(form: Form): Record<string, unknown> {
  return {
    name: form.name ?? '',
    groups: lines(form.groups),
    networks: lines(form.networks),
    ...(form.password ? { password: form.password } : {}),
  };
}
