/**
 * Enforces the provider's rate limits for all processes, as the settings and the provider's responses state them.
 * Reserves a share of them for browsers, and half of the rest for other services than the one that calls (R137).
 */
import type { IncomingHttpHeaders } from 'node:http';
import { retryAfterSeconds } from '../../shared/outbound/retry-after.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { CallWindows } from './call-windows.ts';
import { createHolds } from './holds.ts';
import { statedLimitOf } from './platform-response.ts';
import { createStatedWindows, type StatedLimit } from './stated-windows.ts';

/** A `service` leaves a share of every limit to browsers, whose users wait for a page. */
export type Caller = 'browser' | 'service';

export interface BudgetedCall {
  app: Pick<ConnectedApp, 'id' | 'rateLimit'>;
  /** The owner of the access token: the id of a user or of a service account. */
  ownerId: string;
  caller: Caller;
  /** The relay token of the service, which has at most half of services' share of every limit. */
  relayTokenId?: string | undefined;
  /** Set by `charge`: the owners in whose stated limits this call has a ticket. */
  counted?: Set<string>;
}

/** How long calls are held back if the provider does not say when the limit is reset. */
const DEFAULT_RESET_SECONDS = 60;
const BROWSER_SHARE = 0.2;
/** The share of connection checks in the share of services. */
const CHECK_SHARE = 0.25;
/** Stands for the owner's id in a limit that all users of a company share. */
const ALL_OWNERS = '*';
/** The callers to whom a hold applies, as messages between processes name them. */
const ALL_CALLERS = 'everybody';
const SERVICES = 'services';
/** A refusal holds back all callers; a nearly spent limit holds back only services. */
type HeldCallers = typeof ALL_CALLERS | typeof SERVICES;

/** Services' share of a stated limit, or the part of it that one relay token may use. */
type Part = Pick<BudgetedCall, 'ownerId' | 'relayTokenId'>;

/** A limit of an app: at most `calls` in any minute count under this name. */
interface Limit {
  name: string;
  calls: number;
}

export interface ProviderBudget {
  /** Charges the call. Returns undefined if it may be made, otherwise the whole seconds to wait. */
  charge(call: BudgetedCall): Promise<number | undefined> | number | undefined;

  /**
   * Charges a call that checks a connection: checks get at most a quarter of services' share of `perAppPerMinute`. They
   * do not count toward the user's limit, since each user has only one check per interval.
   */
  chargeCheck(app: BudgetedCall['app']): Promise<number | undefined>;

  /** Updates the limits from the headers of a response. */
  update(call: BudgetedCall, headers: IncomingHttpHeaders): void;

  /**
   * Holds back calls after the provider refused this one because of its rate limit.
   * @param isStated true if the provider said how long to wait. An assumed time holds back only services, not users
   */
  refused(call: BudgetedCall, retryAfterSeconds: number, isStated: boolean): void;

  /** Ends the subscription to the messages of other processes. */
  close(): Promise<void>;
}

export async function createProviderBudget(parts: {
  store: Pick<Store, 'publish' | 'subscribe' | 'increment'>;
  windows: CallWindows;
  clock: () => number;
}): Promise<ProviderBudget> {
  const { store, windows, clock } = parts;
  const holds = await createHolds({ store, clock });
  const statedWindows = createStatedWindows({ store, clock, shareOf: (limit) => shareOf(limit, 'service'), partOf });

  const heldFor = ({ app, ownerId, caller }: BudgetedCall): number =>
    holds.secondsLeft(() => {
      const groups: readonly HeldCallers[] = caller === 'service' ? [ALL_CALLERS, SERVICES] : [ALL_CALLERS];
      return groups.flatMap((callers) => [nameOf(callers, app.id, ALL_OWNERS), nameOf(callers, app.id, ownerId)]);
    });

  const applyLimit = (
    { app, caller, relayTokenId, counted }: BudgetedCall,
    ownerId: string,
    limit: StatedLimit | undefined,
  ) => {
    if (!limit) return;
    const wasCounted = caller === 'browser' || counted?.has(ownerId) === true;
    statedWindows.update(app.id, ownerId, limit, wasCounted, relayTokenId);
    if (limit.remaining > reserveOf(limit.limit)) return;
    const seconds = limit.resetAt === undefined ? DEFAULT_RESET_SECONDS : Math.ceil((limit.resetAt - clock()) / 1000);
    // The remaining calls are for users, who may call until the provider refuses: some providers do not enforce the
    // limits that they state.
    holds.hold(nameOf(SERVICES, app.id, ownerId), seconds);
  };

  /** Takes a ticket from each of these parts of the stated limits, so that concurrent calls cannot exceed them. */
  const takeStated = async (call: BudgetedCall, [part, ...others]: readonly Part[]): Promise<number | undefined> => {
    if (!part) return call.app.rateLimit ? reserve(call) : undefined;
    const ticket = await statedWindows.take(call.app.id, part.ownerId, part.relayTokenId);
    if (ticket?.wait !== undefined) return ticket.wait;
    const wait = await orRelease(ticket, () => takeStated(call, others));
    if (ticket && wait === undefined) call.counted?.add(part.ownerId);
    return wait;
  };

  /** Reserves the call within each of these limits, or within none. */
  const reserveAll = async (appId: string, [first, ...others]: readonly Limit[]): Promise<number | undefined> => {
    if (!first) return undefined;
    const wait = await windows.reserve(appId, first.name, first.calls);
    if (wait !== undefined) return wait;
    const reservedAt = clock();
    return orRelease({ release: () => windows.release(appId, first.name, reservedAt) }, () =>
      reserveAll(appId, others),
    );
  };

  const reserve = ({ app, ownerId, caller, relayTokenId }: BudgetedCall): Promise<number | undefined> => {
    const limitsOf = (name: string, calls: number | undefined): Limit[] => {
      if (calls === undefined) return [];
      const share = { name, calls: shareOf(calls, caller) };
      if (relayTokenId === undefined) return [share];
      return [{ name: `${name} ${relayTokenId}`, calls: partOf(share.calls) }, share];
    };
    const { perUserPerMinute, perAppPerMinute } = app.rateLimit ?? {};
    return reserveAll(app.id, [...limitsOf(`owner:${ownerId}`, perUserPerMinute), ...limitsOf('all', perAppPerMinute)]);
  };

  return {
    charge(call) {
      const wait = heldFor(call);
      if (wait > 0) return wait;
      if (call.caller === 'browser') return call.app.rateLimit ? reserve(call) : undefined;
      call.counted = new Set();
      return takeStated(call, partsOf(call));
    },

    async chargeCheck(app) {
      const call: BudgetedCall = { app, ownerId: ALL_OWNERS, caller: 'service' };
      const wait = heldFor(call);
      const { perAppPerMinute } = app.rateLimit ?? {};
      if (wait > 0 || perAppPerMinute === undefined) return wait || undefined;
      const share = shareOf(perAppPerMinute, 'service');
      const checksShare = Math.max(1, Math.floor(share * CHECK_SHARE));
      return reserveAll(app.id, [
        { name: 'checks', calls: checksShare },
        { name: 'all', calls: share },
      ]);
    },

    update(call, headers) {
      const { app, ownerId } = call;
      const now = clock();
      applyLimit(call, ownerId, statedLimitOf(headers, 'x-ratelimit', now));
      applyLimit(call, ALL_OWNERS, statedLimitOf(headers, 'x-company-ratelimit', now));
      const companySeconds = retryAfterSeconds(headers['x-company-retry-after'], now) ?? 0;
      if (companySeconds > 0) holds.hold(nameOf(ALL_CALLERS, app.id, ALL_OWNERS), companySeconds);
    },

    refused({ app, ownerId }, retryAfterSeconds, isStated) {
      holds.hold(nameOf(isStated ? ALL_CALLERS : SERVICES, app.id, ownerId), retryAfterSeconds);
    },

    close: holds.close,
  };
}

/** Returns the result of `work`. If that is a wait, or if `work` fails, releases the reservation. */
async function orRelease(
  reservation: { release(): void | Promise<void> } | undefined,
  work: () => Promise<number | undefined>,
): Promise<number | undefined> {
  let wait: number | undefined = 0;
  try {
    wait = await work();
    return wait;
  } finally {
    if (wait !== undefined) await reservation?.release();
  }
}

function nameOf(callers: HeldCallers, appId: string, ownerId: string): string {
  return `${callers} ${appId} ${ownerId}`;
}

/** Returns how many calls of a limit services leave to browsers. A limit of one call cannot be shared. */
function reserveOf(limit: number): number {
  return limit <= 1 ? 0 : Math.max(1, Math.floor(limit * BROWSER_SHARE));
}

function shareOf(limit: number, caller: Caller): number {
  return caller === 'service' ? limit - reserveOf(limit) : limit;
}

/** Returns how many calls of services' share one relay token may make, so that others keep the rest. */
function partOf(share: number): number {
  return Math.max(1, Math.floor(share / 2));
}

function partsOf({ ownerId, relayTokenId }: BudgetedCall): Part[] {
  const shares = [{ ownerId }, { ownerId: ALL_OWNERS }];
  return relayTokenId === undefined ? shares : shares.flatMap((share) => [{ ...share, relayTokenId }, share]);
}
