/** Ends the processes that a test has started and not ended: none outlives the process that started it. */
import { type ChildProcess, execFileSync } from 'node:child_process';

const running = new Set<ChildProcess>();

/** Answers the process, which was just started, and ends it with this one unless it ends before. */
export function killOnExit<Child extends ChildProcess>(child: Child): Child {
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** Of what was started here and has not ended. */
export function runningIds(): number[] {
  return [...running].flatMap(({ pid }) => pid ?? []);
}

/** Process ids below these ones. */
export function processesBelow(...parents: number[]): number[] {
  const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  const rows = table
    .trim()
    .split('\n')
    .map((row) => row.trim().split(/\s+/).map(Number));
  const below = (parent: number): number[] =>
    rows.filter(([, ppid]) => ppid === parent).flatMap(([one = 0]) => [one, ...below(one)]);
  return parents.flatMap(below);
}

function endAll(): void {
  const started = runningIds();
  if (started.length === 0) return;
  // What npm or a shell has started would stay when only that is ended.
  for (const pid of [...processesBelow(...started), ...started]) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has just ended by itself.
    }
  }
}

// One listener, however many processes there are: one for each would soon be more than Node takes for a leak.
process.once('exit', endAll);
// Vitest ends its workers by this signal, and a process that a signal ends says no "exit".
process.once('SIGTERM', () => {
  endAll();
  process.kill(process.pid, 'SIGTERM');
});
