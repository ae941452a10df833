/** Owns the counting of services' calls within the limits that a provider states: tickets of one store, fetched a few at a time. */
import { remembered } from '../remembered.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

/** What one answer says about one limit. */
export interface StatedLimit {
  limit: number;
  remaining: number;
  /** When it begins anew, in milliseconds since the epoch; undefined where the provider did not say. */
  resetAt: number | undefined;
}

export interface StatedWindows {
  /**
   * One call of a service. Undefined where no running window is known: the call goes, and its answer says what there is.
   * @returns `wait`: whole seconds until the window begins anew, because all its tickets are taken
   */
  take(appId: string, whom: string): Promise<Ticket | { wait: number }> | undefined;
  /** @param wasCounted false for a service's call that went without a ticket */
  heed(appId: string, whom: string, stated: StatedLimit, wasCounted: boolean): void;
}

export interface Ticket {
  wait: undefined;
  /** For a call that was not made. */
  giveBack(): void;
}

interface Window {
  key: string;
  endsAt: number;
  /** What services may have of it, by all processes. */
  limit: number;
  /** Taken from the store and not used yet. */
  tickets: number;
  /** Calls that want one. */
  waiting: number;
  /** One at a time, so that a crowd does not take the share of the other processes. */
  filling: Promise<boolean> | undefined;
}

const MOST_WINDOWS = 20_000;
/** A process fetches so many parts of a window at once: fewer writes than calls, and little is lost where a process needs no more. */
const PARTS = 16;
/** Whoever says how many seconds are left says it a little differently each time. */
const SAME_WINDOW_MILLISECONDS = 5_000;
const LONGEST_MILLISECONDS = 86_400_000;

/** @param parts `shareOf`: what services may have of a limit */
export function createStatedWindows(parts: {
  store: Pick<Store, 'increment'>;
  clock: () => number;
  shareOf: (limit: number) => number;
}): StatedWindows {
  const { store, clock, shareOf } = parts;
  const windows = remembered<Window>(MOST_WINDOWS);

  const count = ({ key, endsAt }: Window, calls: number, limit?: number) =>
    store.increment(key, calls, {
      ...(limit === undefined ? {} : { limit }),
      lifetimeSeconds: Math.ceil(Math.max(0, endsAt - clock()) / 1000) + 60,
    });

  const ticketOf = (window: Window): Ticket => ({
    wait: undefined,
    giveBack() {
      window.tickets += 1;
    },
  });

  /** As many as wait, or a part for those to come; fewer where fewer are left. False: none is. */
  const fill = async (window: Window): Promise<boolean> => {
    const part = Math.max(1, Math.floor(window.limit / PARTS));
    for (let some = Math.max(part, window.waiting); some >= 1; some = Math.floor(some / 2)) {
      if ((await count(window, some, window.limit)) === undefined) continue;
      window.tickets += some;
      return true;
    }
    return false;
  };

  const fetchTicket = async (window: Window): Promise<Ticket | { wait: number }> => {
    window.waiting += 1;
    try {
      while (window.tickets === 0) {
        window.filling ??= fill(window).finally(() => {
          window.filling = undefined;
        });
        if (await window.filling) continue;
        return { wait: Math.max(1, Math.ceil((window.endsAt - clock()) / 1000)) };
      }
      window.tickets -= 1;
      return ticketOf(window);
    } finally {
      window.waiting -= 1;
    }
  };

  return {
    take(appId, whom) {
      const window = windows.get(`${appId} ${whom}`);
      return window && clock() < window.endsAt ? fetchTicket(window) : undefined;
    },
    heed(appId, whom, { limit, resetAt }, wasCounted) {
      if (resetAt === undefined || resetAt - clock() > LONGEST_MILLISECONDS) return;
      const name = `${appId} ${whom}`;
      const share = shareOf(limit);
      const known = windows.get(name);
      const isKnown = known?.limit === share && Math.abs(known.endsAt - resetAt) < SAME_WINDOW_MILLISECONDS;
      const window = isKnown && known ? known : windowOf(appId, whom, resetAt, share);
      if (window !== known) windows.set(name, window);
      // It is made already: it counts whatever the limit says.
      if (!wasCounted) void count(window, 1).catch(() => undefined);
    },
  };
}

function windowOf(appId: string, whom: string, endsAt: number, share: number): Window {
  const number = Math.round(endsAt / SAME_WINDOW_MILLISECONDS);
  return {
    key: keys.statedCalls(appId, whom, number),
    endsAt,
    limit: share,
    tickets: 0,
    waiting: 0,
    filling: undefined,
  };
}
