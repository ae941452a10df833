/** Documents that must say what is true: settings, promises. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { SETTINGS } from '../src/config.ts';

const root = join(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

describe('.env.example', () => {
  test('lists every setting once, and nothing else', () => {
    const listed = [...read('.env.example').matchAll(/^#?([A-Z][A-Z0-9_]*)=/gm)].map(([, name]) => name);
    expect(listed).toEqual(Object.keys(SETTINGS));
  });

  test('leaves only required settings uncommented, and every secret empty', () => {
    const set = [...read('.env.example').matchAll(/^([A-Z][A-Z0-9_]*)=(.*)$/gm)];
    const required = Object.entries(SETTINGS).filter(([, facts]) => 'required' in facts);
    expect(set.map(([, name]) => name)).toEqual(required.map(([name]) => name));
    const secrets = Object.entries(SETTINGS).filter(([, facts]) => 'secret' in facts);
    for (const [name] of secrets) expect(read('.env.example')).toMatch(new RegExp(`^#?${name}=$`, 'm'));
  });
});

describe('docs/security.md', () => {
  const promised = [...read('docs/security.md').matchAll(/^\| ([RF]\d+) \| (✓?) *\|/gm)];
  const cited = new Set(testNames().flatMap((name) => name.match(/\b[RF]\d{1,2}\b/g) ?? []));

  test('has every number of the requirements and of the faults, in their order', () => {
    const expected = [...numbers('R', 90), ...numbers('F', 22)];
    expect(promised.map(([, number]) => number)).toEqual(expected);
  });

  test('ticks exactly the numbers that a test carries in its name', () => {
    const ticked = promised.filter(([, , tick]) => tick === '✓').map(([, number]) => number);
    expect(ticked).toEqual(promised.map(([, number = '']) => number).filter((number) => cited.has(number)));
  });
});

function numbers(letter: string, most: number): string[] {
  return Array.from({ length: most }, (_, index) => `${letter}${index + 1}`);
}

/** Whatever stands as the first argument of `test`, `it` or `describe`. */
function testNames(): string[] {
  const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('.ts'),
  );
  return files.flatMap((path) =>
    [
      ...read(join('test', path)).matchAll(
        /\b(?:test|it|describe)(?:\.\w+)*(?:\([^'"`]*\))?\(\s*(['"`])((?:\\.|(?!\1).)*)\1/gs,
      ),
    ].map(([, , name = '']) => name),
  );
}
