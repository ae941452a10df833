/** Lists the kinds of stored data from the table of `src/shared/storage/keys.ts`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { kindOf } from '../../src/shared/storage/keys.ts';

const FILE = join(import.meta.dirname, '..', '..', 'src', 'shared', 'storage', 'keys.ts');
const [, TABLE = ''] = /^\/\*\*\n([\s\S]*?) \*\/$/m.exec(readFileSync(FILE, 'utf8')) ?? [];

/** @returns such as `grant`, `index users` or `counter limit`; without channels, which store nothing */
export function storedKinds(): string[] {
  const cells = [...TABLE.matchAll(/^ \* \| ((?:(?:index|counter|lease|log|channel) )?`[^|]+`) \|/gm)].map(
    ([, cell = '']) => cell,
  );
  const kinds = cells
    .filter((cell) => !cell.startsWith('channel'))
    .flatMap((cell) => {
      const [form = ''] = /^(?:\w+ )?/.exec(cell) ?? [];
      return [...cell.matchAll(/`([^`]+)`/g)].map(([, key = '']) => form + kindOf(key));
    });
  return [...new Set(kinds)].toSorted();
}
