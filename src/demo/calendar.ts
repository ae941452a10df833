/** Days and working hours of the demo's history, in UTC. */
import { DAY_MS, HOUR_MS } from '../shared/time.ts';

/** How far the history goes back. */
export const DAYS = 30;

export const startOfDay = (time: number): number => Math.floor(time / DAY_MS) * DAY_MS;
export const startOfHour = (time: number): number => Math.floor(time / HOUR_MS) * HOUR_MS;
export const hourOf = (time: number): number => new Date(time).getUTCHours();
export const isWeekend = (time: number): boolean => [0, 6].includes(new Date(time).getUTCDay());
export const isWorkingHour = (time: number): boolean => !isWeekend(time) && hourOf(time) >= 7 && hourOf(time) < 18;
