/** Owns the start of a sign-in or consent: a transaction, its record, and the URL that the browser is sent to. */
import { authorizationProofs } from '../connected-apps/authorization-proofs.ts';
import { type ConnectedApp, callbackUrlOf, isUsable } from '../connected-apps/connected-app.ts';
import type { ProviderClient } from '../connected-apps/provider-client.ts';
import type { Connections } from '../grants/connections.ts';
import type { SessionUser } from '../http/session-data.ts';
import type { Events } from '../observability/events.ts';
import { type Fail, providerFailure } from './fail.ts';
import type { AdminRule } from './identity.ts';
import { attemptIdOf } from './record.ts';
import { compareRedirectUri, type Recorder, type Visit } from './recorder.ts';
import type { StateSigner } from './state.ts';
import type { Trace } from './steps.ts';
import type { Transaction, Transactions } from './transaction.ts';

export interface StartRequest {
  app: ConnectedApp;
  returnTo: string;
  /** Who is signed in; for `connect` required. */
  user: SessionUser | undefined;
  purpose: Transaction['purpose'];
  visit: Visit & { browserId: string };
  /** Of the app's registered scopes; all of them where left out. */
  scopes?: readonly string[] | undefined;
  /** Asks for the proof that the administration demands; at the app of administrators alone. */
  stepUp?: boolean | undefined;
}

export interface StartParts {
  provider: Pick<ProviderClient, 'authorizationUrl'>;
  connections: Pick<Connections, 'holdsRefreshToken'>;
  recorder: Pick<Recorder, 'started'>;
  transactions: Pick<Transactions, 'put'>;
  states: StateSigner;
  admin: AdminRule;
  events: Events;
  clock: () => number;
  publicHref: string;
}

/** A proof at the provider may be this old to count as a step-up. */
const STEP_UP_SECONDS = 900;

/** Answers the URL of the authorization endpoint. The start itself rejects with SignInError. */
export function createStart(parts: StartParts, fail: Fail): (request: StartRequest, trace: Trace) => Promise<string> {
  const { provider, connections, recorder, transactions, states, admin, events, clock, publicHref } = parts;

  /** Nothing where the administration demands nothing, or where this app makes no administrators. */
  const stepUpOf = ({ app, stepUp }: StartRequest) =>
    stepUp && admin.acr !== undefined && app.id === admin.app
      ? { acrValues: admin.acr, maxAgeSeconds: STEP_UP_SECONDS }
      : {};

  return async (request, trace) => {
    const { app, purpose, user, visit } = request;
    const userId = user?.id;
    if (app.disabled) throw fail('disabled_app', { appId: app.id, purpose });
    const compared = compareRedirectUri(callbackUrlOf(app.id, publicHref), app);
    if (!isUsable(app, publicHref)) {
      throw fail('unusable_app', { appId: app.id, purpose, facts: { seen: compared.detail } });
    }
    const state = states.create(clock());
    const proofs = authorizationProofs(visit.browserId, state);
    const transaction: Transaction = {
      purpose,
      appId: app.id,
      issuer: app.issuer,
      redirectUri: callbackUrlOf(app.id, publicHref),
      scopes: [...(request.scopes ?? app.scopes)],
      returnTo: request.returnTo,
      attempt: { id: attemptIdOf(visit.reference), startedAt: clock() },
      userId,
      ...stepUpOf(request),
    };
    const needsConsent =
      transaction.scopes.includes('offline_access') &&
      !(userId && (await connections.holdsRefreshToken(userId, app.id, transaction.scopes, purpose === 'connect')));
    const url = await provider
      .authorizationUrl(app, { ...transaction, ...proofs, prompt: needsConsent ? 'consent' : undefined })
      .catch((cause: unknown) => {
        throw fail(providerFailure(cause), { appId: app.id, purpose, cause });
      });
    trace.pass('sent', compared.detail);
    // At the same time: neither needs the other, and the record is worth no sign-in.
    await Promise.all([
      transactions.put(visit.browserId, state, transaction, visit.isNewBrowser),
      recorder.started(visit, trace, { state, transaction, user }),
    ]);
    events.signInStarted({ app: app.id, purpose, userId });
    return url;
  };
}
