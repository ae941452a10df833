/** Limits how many calls to each host run and wait; further calls are refused at once (R89). */

export interface UpstreamLimits {
  /** Maximum number of concurrent calls to one host. */
  concurrency: number;
  /** Maximum number of calls to one host that wait for a slot. */
  waiting: number;
}

/** The calls to a provider that anonymous requests can cause. */
export type AnonymousCall = 'discovery' | 'pushed request';

/** How many calls to all hosts run and wait. */
export interface UpstreamLoad {
  running: number;
  waiting: number;
}

/** Lets one call run or wait for its host. */
export interface Reservation {
  /** Starts the call now, or once a slot is free. */
  begin(start: () => void): void;
  /** Must be called once the call has ended, even if it never began. */
  release(): void;
}

/**
 * The cause of a call that is not made for a user: an anonymous request, or a service, by the id of its relay token.
 */
export type Share = { anonymous: AnonymousCall } | { service: string };

export interface UpstreamGate {
  /**
   * Reserves a slot. Calls for users may use every slot of the host. Each kind of anonymous call may use a quarter, and
   * pushed requests do not delay discovery (R92). Services may use three quarters together, and one relay token half of
   * those (R134).
   * @throws the error of `createRefusal` if the host or the share is at its limits
   */
  reserve(origin: string, share?: Share): Reservation;
  /** Reserves within the share of services only, for work that makes its own calls to the host. @throws as `reserve` */
  reserveShare(origin: string, service: string): Reservation;
  load(): UpstreamLoad;
}

/** The calls to a host, or the calls of one share of it. */
interface Slots {
  running: number;
  /** The waiting calls, in the order in which they will begin. */
  waiting: Set<() => void>;
  /** All reservations, including those that have not begun. */
  reservations: number;
  /** The reservations that count toward the limits. */
  counted: number;
}

interface Part {
  name: string;
  limits: UpstreamLimits;
  isCounted: boolean;
}

/** @param createRefusal returns the error of a call beyond the limits */
export function createUpstreamGate(limits: UpstreamLimits, createRefusal: () => Error): UpstreamGate {
  const slotsByName = new Map<string, Slots>();

  const reservePart = ({ name, limits: { concurrency, waiting }, isCounted }: Part): Reservation => {
    const slots = slotsByName.get(name) ?? { running: 0, waiting: new Set(), reservations: 0, counted: 0 };
    if (isCounted && slots.counted >= concurrency + waiting) throw createRefusal();
    slots.reservations += 1;
    slots.counted += Number(isCounted);
    slotsByName.set(name, slots);
    let run: (() => void) | undefined;
    return {
      begin(start) {
        run = start;
        if (slots.running >= concurrency) {
          slots.waiting.add(start);
          return;
        }
        slots.running += 1;
        start();
      },
      release() {
        slots.reservations -= 1;
        slots.counted -= Number(isCounted);
        if (run && !slots.waiting.delete(run)) slots.running -= 1;
        const [nextStart] = slots.waiting;
        if (nextStart && slots.running < concurrency) {
          slots.waiting.delete(nextStart);
          slots.running += 1;
          nextStart();
        } else if (slots.reservations === 0) slotsByName.delete(name);
      },
    };
  };

  /** Reserves a slot in each part. The call begins once each part has one for it. */
  const reserveParts = (parts: readonly Part[]): Reservation => {
    const reservations: Reservation[] = [];
    const release = () => {
      for (const reservation of reservations.toReversed()) reservation.release();
    };
    try {
      for (const part of parts) reservations.push(reservePart(part));
    } catch (error) {
      release();
      throw error;
    }
    const begin = (start: () => void) =>
      reservations.reduceRight((nextStart, reservation) => () => reservation.begin(nextStart), start)();
    return { begin, release };
  };

  const partOf = (name: string, fraction: number): Part => {
    const concurrency = Math.max(1, Math.floor(limits.concurrency * fraction));
    return { name, limits: { concurrency, waiting: Math.floor(limits.waiting * fraction) }, isCounted: true };
  };

  const shareOf = (origin: string, share: Share): Part[] =>
    'anonymous' in share
      ? [partOf(`${share.anonymous} ${origin}`, 1 / 4)]
      : [partOf(`service ${share.service} ${origin}`, 3 / 8), partOf(`services ${origin}`, 3 / 4)];

  return {
    reserve: (origin, share) =>
      share
        ? // The call waits within its share, and does not count toward the limits of the host, which are left to users.
          reserveParts([...shareOf(origin, share), { name: origin, limits, isCounted: false }])
        : reservePart({ name: origin, limits, isCounted: true }),
    reserveShare: (origin, service) => reserveParts(shareOf(origin, { service })),

    load() {
      const hosts = [...slotsByName].filter(([name]) => !name.includes(' ')).map(([, slots]) => slots);
      return {
        running: hosts.reduce((sum, { running }) => sum + running, 0),
        waiting: hosts.reduce((sum, { reservations, running }) => sum + reservations - running, 0),
      };
    },
  };
}
