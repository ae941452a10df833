/** Detects that the files of the database are no longer those that this process opened (R125). */
import { type BigIntStats, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { codeOf } from '../../errors.ts';
import { StorageReplaced } from '../replaced.ts';
import { unavailable } from '../unavailable.ts';

/** Without one of these files, other processes would work on different data. */
const SUFFIXES = ['', '-wal', '-shm'];

const isSameFile = (a: BigIntStats, b: BigIntStats) => a.dev === b.dev && a.ino === b.ino;

/**
 * Remembers the files of an open database, and returns a function that checks them again.
 * @param onLogBytes called with the size of the log at each check
 */
export function rememberFiles(file: string, onLogBytes?: (bytes: number) => void): () => Promise<void> {
  const paths = SUFFIXES.map((suffix) => `${file}${suffix}`);
  const openedFiles = paths.map((path) => statSync(path, { bigint: true }));
  return async () => {
    const currentFiles = await Promise.all(paths.map(statOrNone));
    for (const [n, path] of paths.entries()) {
      const [opened, current] = [openedFiles[n], currentFiles[n]];
      if (opened && current && isSameFile(opened, current)) continue;
      const state = current ? 'is not the file that this process opened' : 'is gone';
      throw new StorageReplaced(
        `${path} ${state}. Put the files of the database back, and restart every process. The last writes may be in other files.`,
      );
    }
    onLogBytes?.(Number(currentFiles[1]?.size ?? 0));
  };
}

async function statOrNone(path: string): Promise<BigIntStats | undefined> {
  try {
    return await stat(path, { bigint: true });
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined;
    throw unavailable(`The files of the database cannot be checked: ${codeOf(error)}`, { cause: error });
  }
}
