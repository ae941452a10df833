/** Templates fit the types of their data: each page and its includes are translated to TypeScript and compiled. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Eta } from 'eta';
import { expect, onTestFinished, test } from 'vitest';
import { BIN_SERVICE_VIEWS, GATEHOUSE_VIEWS, SHARED_VIEWS } from '../../../src/shared/pages/views.ts';

const ROOT = join(import.meta.dirname, '../../..');
const eta = new Eta();

/** The file of each template by its name, which begins with a slash. */
const FILES = new Map(
  [GATEHOUSE_VIEWS, BIN_SERVICE_VIEWS, SHARED_VIEWS].flatMap((directory) =>
    readdirSync(directory, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.eta'))
      .map((path): [string, string] => [`/${path.slice(0, -'.eta'.length)}`, join(directory, path)]),
  ),
);

/**
 * Escaped values must be strings or numbers, so no page shows "undefined", and raw values must be HTML. An included
 * template receives the data of the outer one, and its own.
 */
const PRELUDE = `
import type { PageData, SanitisedHtml } from '${ROOT}/src/shared/pages/page-data.ts';
import type { AdminPageOfList } from '${ROOT}/src/gatehouse/admin/page.ts';
import type { CellViews } from '${ROOT}/src/gatehouse/admin/columns.ts';
import type { Html, Show } from '${ROOT}/src/shared/pages/show.ts';
declare function escaped(value: string | number): void;
/** The view of a cell, whose name is in the columns. */
declare function include(name: keyof CellViews, data: CellViews[keyof CellViews]): Html;
declare function raw(value: Html | SanitisedHtml): void;
declare function merged<It, Own extends object, Optional extends string>(
  it: It, own: Own, optional: readonly Optional[],
): Omit<It, keyof Own> & Own & { [Name in Exclude<Optional, keyof It | keyof Own>]?: any };
`;

const CALL = /^(?:include|layout)\('(\/[^']+)'(?:, (.*))?\)$/s;
/** The comment at the head of an included template. */
const OPTIONAL = /Optional: (\w+(?:, \w+)*)/;

const sourceOf = (name: string) => readFileSync(FILES.get(name) ?? `no template ${name}`, 'utf8');

/** The statements of a template and of its includes. */
function statements(name: string, usedTemplates: Set<string>): string {
  const include = (includedName: string, own: string) => {
    usedTemplates.add(includedName);
    const optional = OPTIONAL.exec(sourceOf(includedName))?.[1]?.split(', ') ?? [];
    return `((it) => {\n${statements(includedName, usedTemplates)}})(merged(it, ${own}, ${JSON.stringify(optional)}));\n`;
  };
  let outer = '';
  const inner = eta.parse(sourceOf(name)).map((tag) => {
    if (typeof tag === 'string') return '';
    const [, called, own = '{}'] = CALL.exec(tag.val) ?? [];
    if (called === undefined) return { e: `${tag.val}\n`, i: `escaped(${tag.val});\n`, r: `raw(${tag.val});\n` }[tag.t];
    if (tag.t === 'r') return include(called, own);
    outer = include(called, `{ ...${own}, body: '' as Html }`);
    return '';
  });
  return inner.join('') + outer;
}

/** The names of the views in columns. */
function cellViews(): string[] {
  const directory = join(ROOT, 'src/gatehouse/admin');
  const sources = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const declared = sources.flatMap((path) => [
    ...readFileSync(join(directory, path), 'utf8').matchAll(/interface CellViews \{(.*?)^ *\}/gms),
  ]);
  return declared.flatMap(([, body = '']) => [...body.matchAll(/^ *'(\/[^']+)': /gm)].map(([, name = '']) => name));
}

/** The errors of the compiler in these files, each with its line. */
function faultsOf(files: Map<string, string>): string[] {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-templates-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  for (const [file, text] of files) writeFileSync(join(directory, file), text);
  // Templates are JavaScript, so their own declarations have no types.
  const looseOptions = { noImplicitAny: false, noUncheckedIndexedAccess: false, noUnusedLocals: false };
  const compilerOptions = { ...looseOptions, typeRoots: [join(ROOT, 'node_modules/@types')] };
  const config = { extends: join(ROOT, 'tsconfig.json'), compilerOptions, include: ['.', join(ROOT, 'src')] };
  writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify(config));
  const { stdout } = spawnSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', '.'], { cwd: directory, encoding: 'utf8' });
  return [...stdout.matchAll(/^([\w-]+\.mts)\((\d+),\d+\): (.*)$/gm)].map(([, file = '', line, fault]) => {
    return `${file}: ${fault}\n${files.get(file)?.split('\n')[Number(line) - 1]}`;
  });
}

test('every template fits the data of its pages, and all are used', () => {
  const templateNames = [...FILES.keys()];
  // The page of a refusal has no layout, since it is complete without other files.
  const isPage = (name: string) => /layout\('/.test(sourceOf(name)) || name === '/errors/refused';
  const pages = templateNames.filter((name) => isPage(name) && !/\/layout(\/|$)/.test(name));
  const drawn = new Set(pages);
  const draw = (page: string, code: string) =>
    `${PRELUDE}export function draw(it: PageData['${page}'] & { show: Show }) {\n${code}}\n`;
  const files = pages.map((name): [string, string] => [
    `${name.slice(1).replaceAll('/', '-')}.mts`,
    draw(name.slice(1), statements(name, drawn)),
  ]);
  for (const name of cellViews()) {
    const type = `CellViews['${name}'] & AdminPageOfList & { show: Show }`;
    drawn.add(name);
    const code = `${PRELUDE}export function draw(it: ${type}) {\n${statements(name, drawn)}}\n`;
    files.push([`${name.slice(1).replaceAll('/', '-')}.mts`, code]);
  }
  // These faults must be found, which proves that the check works.
  const faultyStatements = {
    raw: 'raw(it.code);',
    undefined: 'escaped(it.page.user?.name);',
    unknown: 'escaped(it.page.name);',
  };
  for (const [name, code] of Object.entries(faultyStatements))
    files.push([`${name}.mts`, draw('errors/problem', `${code}\n`)]);
  const faults = faultsOf(new Map(files));
  const expected = Object.keys(faultyStatements).map((name) => expect.stringContaining(`${name}.mts: error TS`));
  expect(faults.toSorted()).toEqual(expected);
  expect(templateNames.filter((name) => !drawn.has(name))).toEqual([]);
});
