/** Confirms the plan that an account has paid for: `POST /account/confirmations`, called by a payment system. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { bearerOf } from '../http/bearer.ts';
import type { RateLimits } from '../http/rate-limit.ts';
import { isoTime } from '../time.ts';
import type { Account, Accounts } from './accounts.ts';

const bodySchema = z.strictObject({ account: z.string().max(100), plan: z.string().max(40) });

/** @param parts `token`: undefined if no payment system may confirm plans */
export function confirmationHandler(parts: {
  accounts: Pick<Accounts, 'find' | 'confirmPlan'>;
  limits: Pick<RateLimits, 'take' | 'check'>;
  token: string | undefined;
}): RequestHandler {
  const { accounts, limits } = parts;
  const expected = parts.token === undefined ? undefined : hashOf(parts.token);

  return async (req, res) => {
    if (!expected)
      throw new AppError('not_found', { detail: 'PAYMENT_TOKEN is not set: plans are confirmed by command.' });
    const { address } = req.context;
    limits.check('guess', address);
    const { token } = bearerOf(req);
    if (token === undefined || !timingSafeEqual(hashOf(token), expected)) {
      limits.take('guess', address);
      throw new AppError('not_allowed', { detail: 'Send PAYMENT_TOKEN as Authorization: Bearer.' });
    }
    const order = bodySchema.safeParse(req.body).data;
    if (!order) throw new AppError('invalid_request', { detail: 'Send {"account", "plan"} as JSON.' });
    const { id, plan } = await confirm(accounts, order);
    res.json({ account: id, plan: plan?.name, since: isoTime(plan?.since ?? 0) });
  };
}

/** Payment systems repeat a call whose response they lost: a plan confirmed before is confirmed again. */
async function confirm(
  accounts: Pick<Accounts, 'find' | 'confirmPlan'>,
  order: z.output<typeof bodySchema>,
): Promise<Account> {
  const confirmed = await accounts.confirmPlan(order.account, order.plan);
  if (confirmed) return confirmed;
  const account = await accounts.find(order.account);
  if (!account) throw new AppError('not_found', { detail: 'There is no account with this id.' });
  if (account.plan?.name === order.plan && !account.requested) return account;
  throw new AppError('version_conflict', {
    detail: 'The account has not ordered this plan, or has ordered another one since.',
  });
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
