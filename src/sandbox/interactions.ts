/** The sign-in, second factor and consent pages of the identity provider. */
import express, { type Request, type Response } from 'express';
import type { Grant, InteractionDetails, Provider } from 'oidc-provider/lib/provider.js';
import { isAllowedFrom } from '../shared/config/networks.ts';
import type { Account, Accounts } from './accounts.ts';
import type { Approvals } from './approvals.ts';
import { fields } from './form-fields.ts';
import { shownUsers } from './home.ts';
import { needsSecondFactor, type SecondFactorDemand, STEP_UP_REASON } from './login-policy.ts';
import type { Pages } from './pages.ts';
import { createPendingCodes, type PendingCodes } from './pending-codes.ts';
import { meaningsOf } from './scopes.ts';
import { PASSWORD_ACR, SECOND_FACTOR_ACR, type SecondFactor } from './second-factor.ts';

interface Parts {
  provider: Provider;
  accounts: Accounts;
  approvals: Approvals;
  secondFactor: SecondFactor;
  secondFactorDemand: SecondFactorDemand;
  pages: Pages;
}

type OwnParts = Parts & { pendingCodes: PendingCodes };

const SIGN_IN_GONE = 'This sign-in has been completed or has expired. Go back to the app and start again.';
const WRONG_ADDRESS = 'This account may sign in only from certain networks, and this browser is not in one of them.';

export function createInteractions(publicParts: Parts): express.Router {
  const parts = { ...publicParts, pendingCodes: createPendingCodes() };
  const router = express.Router();
  const form = express.urlencoded({ extended: false, limit: '16kb' });
  router.get('/:uid', async (req, res) => {
    const details = await findDetails(parts, req, res);
    if (details?.prompt.name === 'consent') await askConsent(parts, res, details);
    else if (details && needsCode(parts, details)) await askCode(parts, res, details);
    else if (details) await askLogin(parts, res, details, { login: details.params.login_hint ?? '' });
  });
  router.post('/:uid/sign-in', form, (req, res) => checkPassword(parts, req, res));
  router.post('/:uid/code', form, (req, res) => checkCode(parts, req, res));
  router.post('/:uid/allow', form, async (req, res) => {
    const details = await findDetails(parts, req, res, 'consent');
    if (details === undefined) return;
    const result = { consent: { grantId: await saveGrant(parts, details) } };
    await parts.provider.interactionFinished(req, res, result, { mergeWithLastSubmission: true });
  });
  router.post('/:uid/deny', form, async (req, res) => {
    const details = await findDetails(parts, req, res);
    const description =
      details?.prompt.name === 'consent' ? 'The user denied access.' : 'The user cancelled the sign-in.';
    if (details) await deny(parts, req, res, description);
  });
  return router;
}

async function checkPassword(parts: OwnParts, req: Request, res: Response): Promise<void> {
  const details = await findDetails(parts, req, res, 'login');
  if (details === undefined) return;
  const { login = '', password = '' } = fields(req);
  const account = parts.accounts.signIn(login, password);
  if (account === undefined) return askLogin(parts, res.status(422), details, { login, wrong: true });
  if (!isAllowedFrom(req.socket.remoteAddress ?? '', account.networks)) {
    return parts.pages.send(res.status(403), 'message', { title: 'Not allowed from here', text: WRONG_ADDRESS });
  }
  if (!needsSecondFactor(account, details.params.acr_values, parts.secondFactorDemand)) {
    return finishLogin(parts, req, res, account, { acr: PASSWORD_ACR, amr: ['pwd'] });
  }
  parts.pendingCodes.begin(details.uid, account.id);
  // Redirect to a page that can be reloaded.
  res.redirect(303, `/interaction/${details.uid}`);
}

async function checkCode(parts: OwnParts, req: Request, res: Response): Promise<void> {
  const details = await findDetails(parts, req, res, 'login');
  if (details === undefined) return;
  const account = needsCode(parts, details) ? accountOf(parts, details) : undefined;
  if (account === undefined) return res.redirect(303, `/interaction/${details.uid}`);
  if (parts.secondFactor.accept(account, fields(req).code ?? '')) {
    parts.pendingCodes.end(details.uid);
    return finishLogin(parts, req, res, account, { acr: SECOND_FACTOR_ACR, amr: ['pwd', 'otp', 'mfa'] });
  }
  if (parts.pendingCodes.countWrong(details.uid)) return askCode(parts, res.status(422), details, true);
  await deny(parts, req, res, 'Too many wrong codes.');
}

/** Returns whether only the code is missing: the password was accepted, or a session needs step-up. */
function needsCode({ pendingCodes }: OwnParts, { uid, prompt }: InteractionDetails): boolean {
  const isStepUp = prompt.reasons.length === 1 && prompt.reasons[0] === STEP_UP_REASON;
  return isStepUp || pendingCodes.accountId(uid) !== undefined;
}

function accountOf({ accounts, pendingCodes }: OwnParts, { uid, session }: InteractionDetails): Account | undefined {
  return accounts.byId(pendingCodes.accountId(uid) ?? session?.accountId ?? '');
}

async function finishLogin(
  { provider }: Parts,
  req: Request,
  res: Response,
  account: Account,
  method: { acr: string; amr: string[] },
): Promise<void> {
  const result = { login: { accountId: account.id, remember: false, ...method } };
  await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false });
}

async function deny({ provider }: Parts, req: Request, res: Response, description: string): Promise<void> {
  const result = { error: 'access_denied', error_description: description };
  await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false });
}

/** Returns the pending authorization request of this browser. If there is none, sends a page. */
async function findDetails({ provider, pages }: Parts, req: Request, res: Response, prompt?: string) {
  const details = await provider.interactionDetails(req, res).catch(() => undefined);
  if (details?.uid === req.params.uid && (prompt === undefined || details?.prompt.name === prompt)) return details;
  pages.send(res.status(400), 'message', { title: 'Start again', text: SIGN_IN_GONE });
  return undefined;
}

async function askLogin(
  parts: Parts,
  res: Response,
  { uid, params }: InteractionDetails,
  { login, wrong = false }: { login: string; wrong?: boolean },
): Promise<void> {
  const client = await parts.provider.Client.find(params.client_id);
  const { password } = parts.accounts;
  parts.pages.send(res, 'login', { title: 'Sign in', uid, client, login, wrong, users: shownUsers(parts), password });
}

async function askCode(parts: OwnParts, res: Response, details: InteractionDetails, wrong = false): Promise<void> {
  const { uid, params } = details;
  const client = await parts.provider.Client.find(params.client_id);
  const account = accountOf(parts, details);
  const currentCode = account && parts.secondFactor.currentCode(account);
  parts.pages.send(res, 'code', { title: 'Second factor', uid, client, account, current: currentCode, wrong });
}

async function askConsent({ provider, accounts, pages }: Parts, res: Response, details: InteractionDetails) {
  const { uid, params, session } = details;
  const client = await provider.Client.find(params.client_id);
  const account = accounts.byId(session?.accountId ?? '');
  const meanings = meaningsOf(params.scope ?? '');
  const back = new URL(params.redirect_uri).host;
  pages.send(res, 'consent', { title: 'Allow access', uid, client, account, meanings, back });
}

async function saveGrant({ provider, approvals }: Parts, { grantId, session, params, prompt }: InteractionDetails) {
  const accountId = session?.accountId ?? '';
  const existing: Grant | undefined = grantId ? await provider.Grant.find(grantId) : undefined;
  const grant = existing ?? new provider.Grant({ accountId, clientId: params.client_id });
  const { missingOIDCScope: missing, missingResourceScopes: missingByResource = {} } = prompt.details;
  if (missing) grant.addOIDCScope(missing.join(' '));
  for (const [resource, scopes] of Object.entries(missingByResource))
    grant.addResourceScope(resource, scopes.join(' '));
  const saved = await grant.save();
  approvals.trim(accountId, params.client_id);
  return saved;
}
