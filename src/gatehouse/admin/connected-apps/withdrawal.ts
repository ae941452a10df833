/** Deletes the registration that Gatehouse made at a provider (RFC 7592, section 2.3), and describes the outcome. */
import type { Request } from 'express';
import type { ConnectedApp } from '../../../shared/provider/connected-app.ts';
import { actorOf } from '../../../shared/sessions/actor.ts';
import { appendOrNote, type ChangeTrail } from '../../audit/audit-change.ts';
import type { ClientManagement, DynamicRegistration, Withdrawal } from '../../connected-apps/dynamic-registration.ts';

type WithdrawnApp = Pick<ConnectedApp, 'id' | 'name' | 'issuer' | 'clientId'>;

/** Deletes the registration. It never throws, because the app is deleted here in any case. */
export type Withdraw = (req: Request, app: WithdrawnApp, management: ClientManagement) => Promise<Withdrawal>;

export function createWithdraw(parts: {
  registration: Pick<DynamicRegistration, 'withdraw'>;
  audit: ChangeTrail;
}): Withdraw {
  const { registration, audit } = parts;
  return async (req, { id, name, issuer, clientId }, management) => {
    const withdrawal = await registration.withdraw(management);
    const entry = { event: 'connected_app.deregistered', target: { kind: 'connected_app', id, name } } as const;
    const outcome = withdrawal.outcome === 'deleted' ? {} : ({ outcome: 'not_done' } as const);
    // The entry is written afterwards: a failure of the audit trail must not prevent the deletion at the provider.
    await appendOrNote(audit, { ...entry, facts: { issuer, clientId }, ...outcome, ...actorOf(req) });
    return withdrawal;
  };
}

/** Describes the outcome and the next step. @param withdrawal undefined if the provider offers no way to delete */
export function withdrawalWords(withdrawal: Withdrawal | undefined, clientId: string): string {
  if (withdrawal?.outcome === 'deleted') return 'The registration at the provider was deleted.';
  const byHand = `the registration with the client ID ${clientId}: delete it there by hand.`;
  if (withdrawal === undefined) return `The provider offers no way to delete ${byHand}`;
  return withdrawal.outcome === 'refused'
    ? `The provider refused (status ${withdrawal.status}) to delete ${byHand}`
    : `${withdrawal.words} It still has ${byHand}`;
}
