/** A failing store: all SQLite calls in this process throw an I/O error until it is repaired. */
import { DatabaseSync, StatementSync } from 'node:sqlite';

/** SQLite's result code for a disk that cannot be read or written (https://sqlite.org/rescode.html#ioerr). */
const IOERR = 10;

/** @returns a function that repairs the store */
export function breakStore(): () => void {
  const repairs: (() => void)[] = [];
  const breakMethod = <T extends object>(prototype: T, name: keyof T & string) => {
    const original = Object.getOwnPropertyDescriptor(prototype, name);
    if (!original) throw new Error(`SQLite has no method ${name}.`);
    const broken = () => {
      throw Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: IOERR });
    };
    Object.defineProperty(prototype, name, { ...original, value: broken });
    repairs.push(() => Object.defineProperty(prototype, name, original));
  };
  for (const name of ['get', 'all', 'run', 'iterate'] as const) breakMethod(StatementSync.prototype, name);
  breakMethod(DatabaseSync.prototype, 'exec');
  return () => {
    for (const repair of repairs) repair();
  };
}
