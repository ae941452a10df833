/**
 * A file next to the database that says that the last process closed it, so that the next start need not check all of
 * it.
 */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';

const markerOf = (file: string) => `${file}-closed`;

/** Returns a text that changes with every write to the file, and is different for a copy of it. */
function stateOf(file: string): string {
  const { ino, size, mtimeNs } = statSync(file, { bigint: true });
  return `${ino} ${size} ${mtimeNs}`;
}

/** Returns true while a process has the database open: the last one that closes it deletes the log. */
const isOpen = (file: string): boolean => existsSync(`${file}-wal`);

/**
 * Writes the marker, after this process has closed the database. Never throws: without the marker, the next start only
 * takes longer.
 */
export function recordCleanStop(file: string): void {
  try {
    if (!isOpen(file)) writeFileSync(markerOf(file), stateOf(file), { mode: 0o600 });
  } catch {
    rmSync(markerOf(file), { force: true });
  }
}

/**
 * Removes the marker. Returns true if the file has not changed since the last process closed it, and false after a
 * kill, a copy, or a write by another program, or if the marker cannot be removed.
 */
export function consumeCleanStop(file: string): boolean {
  try {
    const recordedState = readFileSync(markerOf(file), 'utf8');
    rmSync(markerOf(file));
    return !isOpen(file) && recordedState === stateOf(file);
  } catch {
    return false;
  }
}
