/** A store that fails: SQLite's own calls in this process return an I/O error until it is healed. */
import { DatabaseSync, StatementSync } from 'node:sqlite';

/** Result code of SQLite for a disk that cannot be read or written (https://sqlite.org/rescode.html#ioerr). */
const IOERR = 10;

/** @returns what heals it */
export function breakStore(): () => void {
  const heals: (() => void)[] = [];
  const breakMethod = <T extends object>(prototype: T, name: keyof T & string) => {
    const whole = Object.getOwnPropertyDescriptor(prototype, name);
    if (!whole) throw new Error(`SQLite has no method ${name}.`);
    const broken = () => {
      throw Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: IOERR });
    };
    Object.defineProperty(prototype, name, { ...whole, value: broken });
    heals.push(() => Object.defineProperty(prototype, name, whole));
  };
  for (const name of ['get', 'all', 'run', 'iterate'] as const) breakMethod(StatementSync.prototype, name);
  breakMethod(DatabaseSync.prototype, 'exec');
  return () => {
    for (const heal of heals) heal();
  };
}
