/** Keeps services' calls within the limits that a provider states. Processes fetch tickets for calls in batches. */
import { remembered } from '../../shared/remembered.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_MS } from '../../shared/time.ts';

/** A limit that a response states. */
export interface StatedLimit {
  limit: number;
  remaining: number;
  /** In milliseconds since the epoch; undefined if the provider did not say. */
  resetAt: number | undefined;
}

interface Ticket {
  wait: undefined;
  /** Gives the ticket back; for a call that was not made. */
  release(): void;
}

interface Window {
  /** The keys of two counters: both must permit each call, and both count it. */
  cells: readonly [string, string];
  endsAt: number;
  /** Services' share of the limit, for all processes. */
  limit: number;
  /** How many tickets were fetched from the store, but not used yet. */
  tickets: number;
  /** How many calls wait for a ticket. */
  waiting: number;
  /**
   * The batch being fetched. Only one is fetched at a time, so that a burst of calls does not use up the tickets of
   * others.
   */
  filling: Promise<boolean> | undefined;
}

const MAX_WINDOWS = 20_000;
/**
 * A batch is a sixteenth of the limit: this needs fewer writes than one for each call, and an idle process holds few
 * unused tickets.
 */
const BATCHES = 16;
/** Reset times of one window differ slightly between responses, since some providers send the remaining seconds. */
const SAME_WINDOW_MS = 5_000;
/**
 * A window counts in the cell of its end and in the next cell. Processes whose ends of a window differ by less than a
 * cell therefore share at least one cell.
 */
const CELL_MS = SAME_WINDOW_MS / 2;
const MAX_WINDOW_MS = DAY_MS;

export interface StatedWindows {
  /**
   * Takes a ticket for one call of a service. Returns undefined if there is no current window: the call may be made,
   * and its response states the limit.
   * @param relayTokenId takes the ticket from the part of this relay token, instead of services' share
   * @returns `wait`: whole seconds until the limit is reset, because all tickets are taken
   */
  take(appId: string, ownerId: string, relayTokenId?: string): Promise<Ticket | { wait: number }> | undefined;

  /** Updates the window from a response. @param wasCounted false for a service's call that had no ticket */
  update(appId: string, ownerId: string, stated: StatedLimit, wasCounted: boolean, relayTokenId?: string): void;
}

/** @param parts `shareOf`: services' share of a limit; `partOf`: the part of this share that one relay token may use */
export function createStatedWindows(parts: {
  store: Pick<Store, 'increment'>;
  clock: () => number;
  shareOf: (limit: number) => number;
  partOf: (share: number) => number;
}): StatedWindows {
  const { store, clock, shareOf, partOf } = parts;
  const windows = remembered<Window>(MAX_WINDOWS);

  /** Counts calls in both cells. Returns false, and counts none, if a cell does not permit that many. */
  const count = async ({ cells: [first, second], endsAt }: Window, calls: number, limit?: number): Promise<boolean> => {
    const lifetimeSeconds = Math.ceil(Math.max(0, endsAt - clock()) / 1000) + 60;
    const options = { ...(limit === undefined ? {} : { limit }), lifetimeSeconds };
    if ((await store.increment(first, calls, options)) === undefined) return false;
    let isCounted = false;
    try {
      isCounted = (await store.increment(second, calls, options)) !== undefined;
    } finally {
      if (!isCounted) await store.increment(first, -calls, { lifetimeSeconds }).catch(() => undefined);
    }
    return isCounted;
  };

  const ticketOf = (window: Window): Ticket => ({
    wait: undefined,
    release() {
      window.tickets += 1;
    },
  });

  /**
   * Fetches a batch, or a ticket for each waiting call if that is more. Halves the number until enough tickets remain.
   * Returns false if none remains.
   */
  const fill = async (window: Window): Promise<boolean> => {
    const batch = Math.max(1, Math.floor(window.limit / BATCHES));
    for (let size = Math.max(batch, window.waiting); size >= 1; size = Math.floor(size / 2)) {
      if (!(await count(window, size, window.limit))) continue;
      window.tickets += size;
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

  /** Returns the window of one relay token, which ends with that of all services. */
  const windowOfToken = (appId: string, ownerId: string, relayTokenId: string, services: Window): Window => {
    const part = partOf(services.limit);
    const name = `${ownerId} ${relayTokenId}`;
    const currentWindow = windows.get(`${appId} ${name}`);
    if (currentWindow?.limit === part && currentWindow.endsAt === services.endsAt) return currentWindow;
    const window = windowOf(appId, name, services.endsAt, part);
    windows.set(`${appId} ${name}`, window);
    return window;
  };

  return {
    take(appId, ownerId, relayTokenId) {
      const window = windows.get(`${appId} ${ownerId}`);
      if (!window || clock() >= window.endsAt) return undefined;
      return fetchTicket(relayTokenId === undefined ? window : windowOfToken(appId, ownerId, relayTokenId, window));
    },

    update(appId, ownerId, { limit, resetAt }, wasCounted, relayTokenId) {
      if (resetAt === undefined || resetAt - clock() > MAX_WINDOW_MS) return;
      const name = `${appId} ${ownerId}`;
      const share = shareOf(limit);
      const currentWindow = windows.get(name);
      const isSame = currentWindow?.limit === share && Math.abs(currentWindow.endsAt - resetAt) < SAME_WINDOW_MS;
      const window = isSame && currentWindow ? currentWindow : windowOf(appId, ownerId, resetAt, share);
      if (window !== currentWindow) windows.set(name, window);
      if (wasCounted) return;
      // The call has been made, so it counts even beyond the limit.
      const ofToken = relayTokenId === undefined ? [] : [windowOfToken(appId, ownerId, relayTokenId, window)];
      for (const counting of [window, ...ofToken]) void count(counting, 1).catch(() => undefined);
    },
  };
}

function windowOf(appId: string, ownerId: string, endsAt: number, share: number): Window {
  const cell = Math.floor(endsAt / CELL_MS);
  return {
    cells: [keys.statedCalls(appId, ownerId, cell), keys.statedCalls(appId, ownerId, cell + 1)],
    endsAt,
    limit: share,
    tickets: 0,
    waiting: 0,
    filling: undefined,
  };
}
