/** Confirms the plan that an account has paid for: `POST /account/confirmations`, called by a payment system. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../shared/errors.ts';
import { bearerOf } from '../shared/http/bearer.ts';
import type { RateLimits } from '../shared/http/rate-limit.ts';
import { isoTime } from '../shared/time.ts';
import type { Accounts } from './accounts.ts';

export const confirmationSchema = z.strictObject({
  account: z.string().max(100),
  plan: z.string().max(40),
  order: z.string().max(40),
});

/** @param parts `token`: the token of the payment system; undefined if only commands confirm plans */
export function confirmationHandler(parts: {
  accounts: Pick<Accounts, 'find' | 'confirmPlan'>;
  limits: Pick<RateLimits, 'take'>;
  token: string | undefined;
}): RequestHandler {
  const { accounts, limits } = parts;
  const expected = parts.token === undefined ? undefined : hashOf(parts.token);

  return async (req, res) => {
    if (!expected)
      throw new AppError('not_found', { detail: 'PAYMENT_TOKEN is not set: plans are confirmed by command.' });
    const { isSent, token } = bearerOf(req);
    // Compare first, so that wrong calls from a shared address do not block calls with the right token.
    if (token === undefined || !timingSafeEqual(hashOf(token), expected)) {
      limits.take('guess', req.context.address);
      throw new AppError('sign_in_required', {
        detail: 'Send PAYMENT_TOKEN as Authorization: Bearer.',
        headers: { 'WWW-Authenticate': isSent ? 'Bearer error="invalid_token"' : 'Bearer' },
      });
    }
    const paid = confirmationSchema.safeParse(req.body).data;
    if (!paid) throw new AppError('invalid_request', { detail: 'Send {"account", "plan", "order"} as JSON.' });
    const account = (await accounts.confirmPlan(paid.account, paid)) ?? (await accounts.find(paid.account));
    if (!account) throw new AppError('not_found', { detail: 'There is no account with this id.' });
    // Payment systems repeat a call whose response was lost. An order that is already confirmed does not change.
    const confirmed = account.confirmed?.find(({ order, plan }) => order === paid.order && plan === paid.plan);
    if (!confirmed)
      throw new AppError('version_conflict', {
        detail: 'The account has no such order of this plan, or a later order has replaced it.',
      });
    res.json({ account: account.id, ...confirmed, since: isoTime(confirmed.since) });
  };
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
