/** Writes a file under a temporary name until it is complete, so that an incomplete file never has its final name. */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { AppError, codeOf } from '../../shared/errors.ts';
import { fileFault } from '../../shared/file-fault.ts';

/**
 * Creates a file that only its owner can read. It gets its final name once it is written and flushed to disk.
 * @param options `replace`: overwrite an existing file; default true
 * @throws AppError if the file exists, Error if it cannot be created
 */
export async function writeWholeFile<T>(
  file: string,
  work: (write: (text: string) => Promise<void>) => Promise<T>,
  { replace = true } = {},
): Promise<T> {
  if (!replace && existsSync(file)) throw alreadyExists(file);
  const draft = `${file}.${randomUUID().slice(0, 8)}.part`;
  // Errors name the file, since the user does not know the draft.
  const named = <R>(work: Promise<R>): Promise<R> => work.catch((error: unknown) => throwNamed(error, file));
  const handle = await named(open(draft, 'wx', 0o600));
  try {
    const result = await work((text) => named(handle.writeFile(text)));
    await named(handle.sync());
    await named(replace ? rename(draft, file) : linkDraft(draft, file));
    return result;
  } finally {
    await handle.close();
    await rm(draft, { force: true });
    await syncFolder(dirname(file));
  }
}

/** Unlike `rename`, `link` fails if another program has created the file in the meantime. */
async function linkDraft(draft: string, file: string): Promise<void> {
  await link(draft, file).catch((error: unknown) => {
    if (codeOf(error) === 'EEXIST') throw alreadyExists(file);
    // Some file systems do not support links.
    return rename(draft, file);
  });
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  await folder.sync().finally(() => folder.close());
}

function throwNamed(error: unknown, file: string): never {
  const detail = error instanceof AppError ? undefined : fileFault(error, file);
  throw detail === undefined ? error : new AppError('invalid_request', { detail, cause: error });
}

function alreadyExists(file: string): AppError {
  return new AppError('invalid_request', { detail: `${file} already exists. Use another name, or --force.` });
}
