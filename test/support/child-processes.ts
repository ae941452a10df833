/** Ends child processes that a test has not ended, so that none outlives the test process. */
import { type ChildProcess, execFileSync } from 'node:child_process';

const running = new Set<ChildProcess>();

/** Ends this new child process when the current process exits. @returns the child process */
export function killOnExit<Child extends ChildProcess>(child: Child): Child {
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** Returns the ids of child processes that are still running. */
export function runningChildIds(): number[] {
  return [...running].flatMap(({ pid }) => pid ?? []);
}

/** Returns the ids of all descendants of these processes. */
export function processesBelow(...parents: number[]): number[] {
  const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  const processes = table
    .trim()
    .split('\n')
    .map((row) => {
      const [pid = 0, parent = 0] = row.trim().split(/\s+/).map(Number);
      return { pid, parent };
    });
  const descendantsOf = (ancestor: number): number[] => {
    const children = processes.filter(({ parent }) => parent === ancestor);
    return children.flatMap(({ pid }) => [pid, ...descendantsOf(pid)]);
  };
  return parents.flatMap(descendantsOf);
}

function endAll(): void {
  const started = runningChildIds();
  if (started.length === 0) return;
  // The children of npm or a shell would survive their parent.
  for (const pid of [...processesBelow(...started), ...started]) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // The process has already ended.
    }
  }
}

// One listener for all processes, because Node reports many listeners as a leak.
process.once('exit', endAll);
// Vitest ends its workers with this signal, which does not emit "exit".
process.once('SIGTERM', () => {
  endAll();
  process.kill(process.pid, 'SIGTERM');
});
