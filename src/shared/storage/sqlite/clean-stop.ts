/** A note beside the database that the last process closed it: then the next start need not read all of it to look for damage. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';

const noteOf = (file: string) => `${file}-closed`;

/** Changes with every write to the file, and with a copy of it. */
function stateOf(file: string): string {
  const { ino, size, mtimeNs } = statSync(file, { bigint: true });
  return `${ino} ${size} ${mtimeNs}`;
}

/** Where another process has the database open, its log is still there, and nothing is noted. */
const isOpen = (file: string): boolean => existsSync(`${file}-wal`);

/** Called once this process has closed the database. Never throws: without the note, the next start only takes longer. */
export function noteCleanStop(file: string): void {
  try {
    if (!isOpen(file)) writeFileSync(noteOf(file), stateOf(file), { mode: 0o600 });
  } catch {
    rmSync(noteOf(file), { force: true });
  }
}

/**
 * Whether the file is as the last process closed it. A kill, a copy, or a write by another program since then means no. Removes
 * the note, and says no where it cannot.
 */
export function takeCleanStop(file: string): boolean {
  try {
    const noted = readFileSync(noteOf(file), 'utf8');
    rmSync(noteOf(file));
    return !isOpen(file) && noted === stateOf(file);
  } catch {
    return false;
  }
}
