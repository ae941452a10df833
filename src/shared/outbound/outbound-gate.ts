/** Limits how many calls to each host run and wait; further calls are refused at once (R89). */

export interface OutboundLimits {
  /** Maximum number of concurrent calls to one host. */
  concurrency: number;
  /** Maximum number of calls to one host that wait for a slot. */
  waiting: number;
}

/** The calls to a provider that anonymous requests can cause. */
export type AnonymousCall = 'discovery' | 'pushed request';

/** How many calls to all hosts run and wait. */
export interface OutboundLoad {
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
 * The cause of a call that is not made for a user: an anonymous request, or a service. `service` is the id of the relay
 * token with which the service calls Gatehouse.
 */
export type Share = { anonymous: AnonymousCall } | { service: string };

export interface OutboundGate {
  /**
   * Reserves a slot. Calls for users may use every slot of the host. Services may use five eighths together, and one
   * relay token half of those. Discovery and pushed requests may use an eighth each. So an eighth is left to users, and
   * with fewer than eight slots one, if there are at least four (R92, R134).
   * @throws the error of `createRefusal` if the host or the share is at its limits
   */
  reserve(origin: string, share?: Share): Reservation;
  /** Reserves within the share of services only, for work that makes its own calls to the host. @throws as `reserve` */
  reserveShare(origin: string, service: string): Reservation;
  load(): OutboundLoad;
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

/** The eighths of a host's slots and places that the calls of each share may use. */
const EIGHTHS = { services: 5, discovery: 1, 'pushed request': 1 } as const;

interface Part {
  name: string;
  limits: OutboundLimits;
  isCounted: boolean;
}

/** @param createRefusal returns the error of a call beyond the limits */
export function createOutboundGate(limits: OutboundLimits, createRefusal: () => Error): OutboundGate {
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

  const limitsOf = (eighths: number): OutboundLimits => ({
    // With four to seven slots, discovery, pushed requests and users have one each.
    concurrency: Math.max(1, Math.min(Math.floor((limits.concurrency * eighths) / 8), limits.concurrency - 3)),
    waiting: Math.floor((limits.waiting * eighths) / 8),
  });
  const halfOf = ({ concurrency, waiting }: OutboundLimits): OutboundLimits => ({
    concurrency: Math.max(1, Math.floor(concurrency / 2)),
    waiting: Math.floor(waiting / 2),
  });

  const shareOf = (origin: string, share: Share): Part[] => {
    const isCounted = true;
    if ('anonymous' in share)
      return [{ name: `${share.anonymous} ${origin}`, limits: limitsOf(EIGHTHS[share.anonymous]), isCounted }];
    const services = limitsOf(EIGHTHS.services);
    return [
      { name: `service ${share.service} ${origin}`, limits: halfOf(services), isCounted },
      { name: `services ${origin}`, limits: services, isCounted },
    ];
  };

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
