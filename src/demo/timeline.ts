/** Runs what happened in the past in its order, with a clock that stands at the time of each event. */

type Task = { at: number; run: () => unknown };

export type Timeline = ReturnType<typeof createTimeline>;

/** @param end later tasks are left out: they have not happened yet. Milliseconds since the epoch */
export function createTimeline(end: number) {
  const tasks: Task[] = [];
  let now = end;
  return {
    clock: () => now,
    moveTo(time: number): void {
      now = Math.round(time);
    },
    at(time: number, run: Task['run']): void {
      const at = Math.round(time);
      if (at >= end) return;
      const place = tasks.findIndex((task) => task.at > at);
      tasks.splice(place === -1 ? tasks.length : place, 0, { at, run });
    },
    /** Also runs what a task adds, if that is not earlier than the task itself. */
    async play(): Promise<void> {
      for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) {
        now = task.at;
        await task.run();
      }
      now = end;
    },
  };
}
