/** Owns the provider's limits as one budget of all processes: kept from the settings, learnt from its answers, with a share left for browsers. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { remembered } from '../remembered.ts';
import type { Store } from '../storage/store.ts';
import type { CallWindows } from './call-windows.ts';
import { createStatedWindows, type StatedLimit } from './stated-windows.ts';

/** Services leave a part of every limit to people who wait in front of a page. */
export type Caller = 'browser' | 'service';

export interface BudgetedCall {
  app: Pick<ConnectedApp, 'id' | 'rateLimit'>;
  /** Whose access token it carries: a user's id, or a service account's. */
  whom: string;
  caller: Caller;
  /** Limits that this call holds a ticket of, once it was taken. */
  counted?: Counted;
}

type Counted = Readonly<Record<'own' | 'everybody', boolean>>;

export interface ProviderBudget {
  /** Undefined where the call may be made; else the whole seconds after which it may. */
  take(call: BudgetedCall): Promise<number | undefined> | number | undefined;
  /** What the provider says about its limits with an answer. */
  heed(call: BudgetedCall, headers: Readonly<Record<string, string | string[] | undefined>>): void;
  /**
   * The provider has refused this call for its rate limit.
   * @param stated false where it did not say how long: people are not kept waiting for what is a guess
   */
  refused(call: BudgetedCall, retryAfterSeconds: number, stated: boolean): void;
  close(): Promise<void>;
}

/** One part in five of what a provider allows. */
const BROWSER_SHARE = 0.2;
const EVERYBODY = '*';
const CHANNEL = 'provider-budget';
const MOST_SECONDS = 3_600;
const MOST_HOLDS = 10_000;

export async function createProviderBudget(parts: {
  store: Pick<Store, 'publish' | 'subscribe' | 'increment'>;
  windows: CallWindows;
  clock: () => number;
}): Promise<ProviderBudget> {
  const { store, windows, clock } = parts;
  /** Until when nobody calls, or services alone do not, in milliseconds since the epoch. */
  const holds = remembered<number>(MOST_HOLDS);
  let lastEnd = 0;
  const stated = createStatedWindows({ store, clock, shareOf: (limit) => shareOf(limit, 'service') });

  const keep = (name: string, until: number): boolean => {
    // Answers that come at once say the same thing: once is enough.
    if ((holds.get(name) ?? 0) >= until - 1_000) return false;
    holds.set(name, until);
    lastEnd = Math.max(lastEnd, until);
    return true;
  };

  const unsubscribe = await store.subscribe(CHANNEL, (message) => {
    const { name, until } = JSON.parse(message) as { name: string; until: number };
    keep(name, until);
  });

  const hold = (name: string, seconds: number): void => {
    const until = clock() + Math.min(MOST_SECONDS, seconds) * 1000;
    if (!keep(name, until)) return;
    // A process that misses it hears it from the provider itself.
    void store.publish(CHANNEL, JSON.stringify({ name, until })).catch(() => undefined);
  };

  const heldFor = ({ app, whom, caller }: BudgetedCall): number => {
    const now = clock();
    if (now >= lastEnd) return 0;
    const held: readonly Held[] = caller === 'service' ? ['everybody', 'services'] : ['everybody'];
    const names = held.flatMap((one) => [nameOf(one, app.id, EVERYBODY), nameOf(one, app.id, whom)]);
    const seconds = names.map((name) => Math.ceil(((holds.get(name) ?? 0) - now) / 1000));
    // A clock that was set back makes nobody wait for longer.
    return Math.min(MOST_SECONDS, Math.max(0, ...seconds));
  };

  const heedLimit = ({ app, caller }: BudgetedCall, whom: string, said: StatedLimit | undefined, counted: boolean) => {
    if (!said) return;
    stated.heed(app.id, whom, said, counted || caller === 'browser');
    if (said.remaining > reserveOf(said.limit)) return;
    const seconds = said.resetAt === undefined ? DEFAULT_RESET_SECONDS : Math.ceil((said.resetAt - clock()) / 1000);
    // What is left is for people: they go on until the provider itself refuses, since some state limits that they do not keep.
    hold(nameOf('services', app.id, whom), seconds);
  };

  /** Of what the provider states, services never have more than their share in flight and made together, however many call at once. */
  const takeStated = async (call: BudgetedCall): Promise<number | undefined> => {
    const own = await stated.take(call.app.id, call.whom);
    if (own?.wait !== undefined) return own.wait;
    const everybody = await stated.take(call.app.id, EVERYBODY);
    const wait = everybody?.wait ?? (call.app.rateLimit ? await reserve(call) : undefined);
    if (wait !== undefined) {
      for (const ticket of [own, everybody]) if (ticket && ticket.wait === undefined) ticket.giveBack();
      return wait;
    }
    call.counted = { own: own !== undefined, everybody: everybody !== undefined };
    return undefined;
  };

  const reserve = async ({ app, whom, caller }: BudgetedCall): Promise<number | undefined> => {
    const { perUserPerMinute, perAppPerMinute } = app.rateLimit ?? {};
    let reservedAt = 0;
    if (perUserPerMinute !== undefined) {
      const wait = await windows.reserve(app.id, `whom:${whom}`, shareOf(perUserPerMinute, caller));
      if (wait !== undefined) return wait;
      reservedAt = clock();
    }
    if (perAppPerMinute === undefined) return undefined;
    const wait = await windows.reserve(app.id, 'all', shareOf(perAppPerMinute, caller));
    if (wait !== undefined && perUserPerMinute !== undefined) {
      await windows.giveBack(app.id, `whom:${whom}`, reservedAt);
    }
    return wait;
  };

  return {
    take(call) {
      const wait = heldFor(call);
      if (wait > 0) return wait;
      if (call.caller === 'service') return takeStated(call);
      return call.app.rateLimit ? reserve(call) : undefined;
    },

    heed(call, headers) {
      const { app, whom, counted } = call;
      const now = clock();
      heedLimit(call, whom, readLimit(headers, 'x-ratelimit', now), counted?.own === true);
      heedLimit(call, EVERYBODY, readLimit(headers, 'x-company-ratelimit', now), counted?.everybody === true);
      const companySeconds = Number(headers['x-company-retry-after']);
      if (companySeconds > 0) hold(nameOf('everybody', app.id, EVERYBODY), companySeconds);
    },

    refused({ app, whom }, retryAfterSeconds, stated) {
      hold(nameOf(stated ? 'everybody' : 'services', app.id, whom), retryAfterSeconds);
    },

    close: unsubscribe,
  };
}

/** A refusal holds everybody; what is said to be nearly spent, services alone. */
type Held = 'everybody' | 'services';

function nameOf(held: Held, appId: string, whom: string): string {
  return `${held} ${appId} ${whom}`;
}

/** What services leave of a limit; a limit of one call has no parts. */
function reserveOf(limit: number): number {
  return limit <= 1 ? 0 : Math.max(1, Math.floor(limit * BROWSER_SHARE));
}

function shareOf(limit: number, caller: Caller): number {
  return caller === 'service' ? limit - reserveOf(limit) : limit;
}

const DEFAULT_RESET_SECONDS = 60;

/** `…-Reset` is a UTC timestamp in seconds; some send the seconds that are left, and some 0 once it is spent. */
function readLimit(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  prefix: string,
  now: number,
): StatedLimit | undefined {
  const limit = wholeNumber(headers[`${prefix}-limit`]);
  const remaining = wholeNumber(headers[`${prefix}-remaining`]);
  if (limit === undefined || remaining === undefined) return undefined;
  const reset = wholeNumber(headers[`${prefix}-reset`]) ?? 0;
  const left = reset > 1_000_000_000 ? reset - now / 1000 : reset;
  return { limit, remaining, resetAt: left > 0 ? now + left * 1000 : undefined };
}

function wholeNumber(value: string | string[] | undefined): number | undefined {
  return typeof value === 'string' && /^\d{1,12}$/.test(value) ? Number(value) : undefined;
}
