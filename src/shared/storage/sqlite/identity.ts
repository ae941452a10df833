/** Finds out that the files of the database are no longer those that this process opened (R125). */
import { type BigIntStats, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { codeOf } from '../../errors.ts';
import { StorageReplaced } from '../replaced.ts';
import { unavailable } from '../unavailable.ts';

/** Without any of them, other processes would work on another state. */
const SUFFIXES = ['', '-wal', '-shm'];

const sameFile = (one: BigIntStats, other: BigIntStats) => one.dev === other.dev && one.ino === other.ino;

/**
 * To be called once the database is open. Returns the function that looks again at the paths.
 * @param onLogBytes gets the size of the log at each look
 */
export function rememberFiles(file: string, onLogBytes?: (bytes: number) => void): () => Promise<void> {
  const paths = SUFFIXES.map((suffix) => `${file}${suffix}`);
  const opened = paths.map((path) => statSync(path, { bigint: true }));
  return async () => {
    const found = await Promise.all(paths.map(statOrNone));
    for (const [n, path] of paths.entries()) {
      const [before, now] = [opened[n], found[n]];
      if (before && now && sameFile(before, now)) continue;
      const state = now ? 'is another file than the one that this process opened' : 'is gone';
      throw new StorageReplaced(
        `${path} ${state}. Put the files of the database back and restart every process; their last writes may be elsewhere.`,
      );
    }
    onLogBytes?.(Number(found[1]?.size ?? 0));
  };
}

async function statOrNone(path: string): Promise<BigIntStats | undefined> {
  try {
    return await stat(path, { bigint: true });
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined;
    throw unavailable(`The files of the database cannot be looked at: ${codeOf(error)}`, { cause: error });
  }
}
