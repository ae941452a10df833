/** Describes why a file cannot be used. */
import { codeOf } from './errors.ts';

/** The texts by system error code. */
const TEXTS: Readonly<Record<string, string>> = {
  EACCES: 'this user has no permission for it. Check its owner and permissions, and those of its folders.',
  EPERM: 'this user has no permission for it. Check its owner and permissions, and those of its folders.',
  ENOENT: 'there is no such file or folder. Check the path.',
  ENOTDIR: 'a part of its path is a file, not a folder. Check the path.',
  EISDIR: 'it is a folder. Enter the path of a file.',
  EEXIST: 'it exists already. Choose another name.',
  ENOSPC: 'the disk is full. Free some space, or choose another disk.',
  EDQUOT: 'the disk quota of this user is used up. Free some space, or choose another disk.',
  EFBIG: 'it would be larger than files may be here. Choose another disk, or raise the limit (ulimit -f).',
  EROFS: 'its disk is read-only. Choose another folder.',
  EMFILE: 'this process has too many open files. Raise the limit (ulimit -n).',
  ENFILE: 'the machine has too many open files. Close some programs.',
  ENAMETOOLONG: 'its name is too long. Choose a shorter one.',
  ELOOP: 'its path has a loop of symbolic links. Check the path.',
  EBUSY: 'another program is using it. Try again later.',
  EIO: 'the disk cannot be read or written properly. Check it.',
};

/** Says what is wrong and what to do; undefined for other errors. @param file the path that the user entered */
export function fileFault(error: unknown, file?: string): string | undefined {
  const text = TEXTS[codeOf(error) ?? ''];
  if (text === undefined) return undefined;
  const path = error instanceof Error && 'path' in error && typeof error.path === 'string' ? error.path : 'The file';
  return `${file ?? path}: ${text}`;
}
