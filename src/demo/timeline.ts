/** The days and working hours of the demo's history in UTC, and a clock that moves from event to event. */
import { DAY_MS, HOUR_MS } from '../shared/time.ts';

/** The length of the history in days. */
export const DAYS = 30;

export const startOfDay = (time: number): number => Math.floor(time / DAY_MS) * DAY_MS;
export const startOfHour = (time: number): number => Math.floor(time / HOUR_MS) * HOUR_MS;
export const hourOf = (time: number): number => new Date(time).getUTCHours();
export const isWeekend = (time: number): boolean => [0, 6].includes(new Date(time).getUTCDay());
export const isWorkingHour = (time: number): boolean => !isWeekend(time) && hourOf(time) >= 7 && hourOf(time) < 18;

type PlannedEvent = { at: number; run: () => unknown };

/** Runs the planned events in the order of their times. */
export interface Timeline {
  clock(): number;
  moveTo(time: number): void;
  at(time: number, run: PlannedEvent['run']): void;
  /** Runs every event, including events that another event adds for a later time. */
  play(): Promise<void>;
}

/** @param end the current time, in milliseconds since the epoch. Events at or after it are ignored. */
export function createTimeline(end: number): Timeline {
  const events: PlannedEvent[] = [];
  let now = end;
  return {
    clock: () => now,
    moveTo(time) {
      now = Math.round(time);
    },
    at(time, run) {
      const at = Math.round(time);
      if (at >= end) return;
      const index = events.findIndex((event) => event.at > at);
      events.splice(index === -1 ? events.length : index, 0, { at, run });
    },
    async play() {
      for (let event = events.shift(); event !== undefined; event = events.shift()) {
        now = event.at;
        await event.run();
      }
      now = end;
    },
  };
}
