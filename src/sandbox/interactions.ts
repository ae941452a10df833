/** Owns the two questions the identity provider asks a person, who are you and do you allow this, and their answers. */
import express, { type Request, type Response } from 'express';
import type { Grant, InteractionDetails, Provider } from 'oidc-provider/lib/provider.js';
import type { Accounts } from './accounts.ts';
import type { Pages } from './pages.ts';
import { meaningsOf } from './scopes.ts';

interface Parts {
  provider: Provider;
  accounts: Accounts;
  pages: Pages;
}

export function createInteractions(parts: Parts): express.Router {
  const router = express.Router();
  const form = express.urlencoded({ extended: false, limit: '16kb' });

  router.get('/:uid', async (req, res) => {
    const details = await findDetails(parts, req, res);
    if (details === undefined) return;
    if (details.prompt.name === 'login')
      await askLogin(parts, res, details, { login: details.params.login_hint ?? '' });
    else await askConsent(parts, res, details);
  });

  router.post('/:uid/sign-in', form, async (req, res) => {
    const details = await findDetails(parts, req, res, 'login');
    if (details === undefined) return;
    const { login = '', password = '' } = fields(req);
    const account = parts.accounts.signIn(login, password);
    if (account === undefined) {
      await askLogin(parts, res.status(422), details, { login, wrong: true });
      return;
    }
    const result = { login: { accountId: account.id, remember: false, amr: ['pwd'] } };
    await parts.provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false });
  });

  router.post('/:uid/allow', form, async (req, res) => {
    const details = await findDetails(parts, req, res, 'consent');
    if (details === undefined) return;
    const result = { consent: { grantId: await saveGrant(parts.provider, details) } };
    await parts.provider.interactionFinished(req, res, result, { mergeWithLastSubmission: true });
  });

  router.post('/:uid/deny', form, async (req, res) => {
    if ((await findDetails(parts, req, res)) === undefined) return;
    const result = { error: 'access_denied', error_description: 'The person did not allow the access.' };
    await parts.provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false });
  });

  return router;
}

/** The pending authorization request of this browser; answers itself when there is none of that kind (any more). */
async function findDetails({ provider, pages }: Parts, req: Request, res: Response, prompt?: string) {
  const details = await provider.interactionDetails(req, res).catch(() => undefined);
  if (details?.uid === req.params.uid && (prompt === undefined || details?.prompt.name === prompt)) return details;
  const text = 'This sign-in was finished or has run out of time. Go back to the app and start again.';
  res
    .status(400)
    .set(pages.headers)
    .send(pages.render('message', { title: 'Start again, please', text }));
  return undefined;
}

async function askLogin(
  { provider, accounts, pages }: Parts,
  res: Response,
  { uid, params }: InteractionDetails,
  { login, wrong = false }: { login: string; wrong?: boolean },
): Promise<void> {
  const client = await provider.Client.find(params.client_id);
  const { all, password } = accounts;
  const page = pages.render('login', { title: 'Sign in', uid, client, login, wrong, accounts: all, password });
  res.set(pages.headers).send(page);
}

async function askConsent({ provider, accounts, pages }: Parts, res: Response, details: InteractionDetails) {
  const { uid, params, session } = details;
  const client = await provider.Client.find(params.client_id);
  const account = accounts.byId(session?.accountId ?? '');
  const meanings = meaningsOf(params.scope ?? '');
  const back = new URL(params.redirect_uri).host;
  res.set(pages.headers).send(pages.render('consent', { title: 'Allow access', uid, client, account, meanings, back }));
}

async function saveGrant(provider: Provider, { grantId, session, params, prompt }: InteractionDetails) {
  const known: Grant | undefined = grantId ? await provider.Grant.find(grantId) : undefined;
  const grant = known ?? new provider.Grant({ accountId: session?.accountId ?? '', clientId: params.client_id });
  const missing = prompt.details.missingOIDCScope;
  if (missing) grant.addOIDCScope(missing.join(' '));
  return grant.save();
}

function fields(req: Request): Record<string, string> {
  const body: unknown = req.body;
  if (typeof body !== 'object' || body === null) return {};
  return Object.fromEntries(
    Object.entries(body).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}
