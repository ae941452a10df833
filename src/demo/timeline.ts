/** The time of the demo's history: its days and working hours in UTC, and a clock that stands at the time of each event. */
import { DAY_MS, HOUR_MS } from '../shared/time.ts';

/** How far the history goes back. */
export const DAYS = 30;

export const startOfDay = (time: number): number => Math.floor(time / DAY_MS) * DAY_MS;
export const startOfHour = (time: number): number => Math.floor(time / HOUR_MS) * HOUR_MS;
export const hourOf = (time: number): number => new Date(time).getUTCHours();
export const isWeekend = (time: number): boolean => [0, 6].includes(new Date(time).getUTCDay());
export const isWorkingHour = (time: number): boolean => !isWeekend(time) && hourOf(time) >= 7 && hourOf(time) < 18;

type Task = { at: number; run: () => unknown };

/** Runs what happened in the past in its order. */
export interface Timeline {
  clock(): number;
  moveTo(time: number): void;
  at(time: number, run: Task['run']): void;
  /** Also runs what a task adds, if that is not earlier than the task itself. */
  play(): Promise<void>;
}

/** @param end later tasks are left out: they have not happened yet. Milliseconds since the epoch */
export function createTimeline(end: number): Timeline {
  const tasks: Task[] = [];
  let now = end;
  return {
    clock: () => now,
    moveTo(time) {
      now = Math.round(time);
    },
    at(time, run) {
      const at = Math.round(time);
      if (at >= end) return;
      const place = tasks.findIndex((task) => task.at > at);
      tasks.splice(place === -1 ? tasks.length : place, 0, { at, run });
    },
    async play() {
      for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) {
        now = task.at;
        await task.run();
      }
      now = end;
    },
  };
}
