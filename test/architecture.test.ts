/**
 * Checks the rules of docs/architecture.md: imports go down, names follow the rules, only entry points read the
 * environment.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';

const src = join(import.meta.dirname, '..', 'src');

/** The programs and the shared modules, each with the folders and files that it may import. */
const PROGRAMS: Record<string, string[]> = {
  gatehouse: ['shared'],
  'bin-lookup-service': ['shared'],
  // An independent system, which may disagree with Gatehouse.
  sandbox: [
    'bin-lookup-service',
    'shared/bin',
    'shared/pages',
    'shared/errors.ts',
    'shared/config/networks.ts',
    'shared/http/cookie-name.ts',
  ],
  demo: ['gatehouse', 'sandbox', 'shared'],
  shared: [],
};

/** The entry points, and what each may import. */
const ENTRY_POINTS: Record<string, string[]> = {
  'server.ts': ['gatehouse', 'shared'],
  'cli.ts': ['gatehouse', 'shared'],
  'demo.ts': ['demo', 'gatehouse', 'sandbox', 'shared'],
  'sandbox.ts': ['sandbox', 'bin-lookup-service', 'shared'],
  'bin-lookup-service.ts': ['bin-lookup-service', 'shared'],
};

/** The lines of the drawings, from top to bottom. A module may import modules of lower lines, and its own files. */
const GATEHOUSE: string[][] = [
  ['ready-text.ts'],
  ['commands'],
  ['start.ts'],
  ['gatehouse.ts'],
  ['reload.ts'],
  ['read-settings.ts'],
  ['app.ts'],
  ['routes.ts'],
  ['sign-in', 'home', 'platform/routes.ts', 'bin/routes.ts', 'grants/routes.ts', 'admin', 'api-docs'],
  ['relay'],
  // They may import http and pages, like the modules above, which import them.
  ['grants/connection-view.ts', 'platform/routed-request.ts'],
  ['sign-in-record', 'platform'],
  ['users', 'webhooks', 'admin-tokens', 'key-rotation'],
  ['grants'],
  ['connected-apps', 'bin', 'audit'],
];
const SHARED: string[][] = [
  ['pages'],
  ['sessions'],
  ['provider', 'bin'],
  ['http', 'outbound', 'storage', 'observability'],
  ['file-fault.ts'],
  ['errors.ts'],
  ['config'],
  // Separate, because it is the only file of `config` that the sandbox imports.
  ['config/networks.ts'],
  ['fair-pool.ts', 'remembered.ts', 'once.ts', 'time.ts', 'text.ts', 'json.ts', 'version.ts'],
];
const inFolder = (folder: string, lines: string[][]) => lines.map((line) => line.map((name) => `${folder}/${name}`));
const LINES = [...inFolder('gatehouse', GATEHOUSE), ...inFolder('shared', SHARED)];

/** Exceptions: a module, and the modules of its own line that it may import. */
const SAME_LINE: Record<string, string[]> = {
  'shared/http': ['shared/storage', 'shared/observability', 'shared/outbound'],
};

/** Only modules that speak HTTP may import these. */
const HTTP_ONLY = ['shared/http', 'shared/sessions', 'shared/pages'];
/** The modules that must not depend on HTTP, sessions or pages. */
const WITHOUT_HTTP = inFolder('gatehouse', [
  ['sign-in-record', 'platform', 'users', 'webhooks', 'admin-tokens', 'key-rotation'],
  ['grants', 'connected-apps', 'bin', 'audit'],
]).flat();

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
const source = (path: string) => readFileSync(join(src, path), 'utf8');

/** Modules that the file with their name creates. No other module creates a part of them. */
const SELF_ASSEMBLED = [
  ...['admin', 'admin-tokens', 'api-docs', 'audit', 'bin', 'connected-apps', 'grants', 'home', 'key-rotation', 'relay'],
  ...['sign-in', 'sign-in-record', 'platform', 'users', 'webhooks'],
].map((name) => `gatehouse/${name}`);
SELF_ASSEMBLED.push('shared/sessions');
/** Exceptions: these modules may create a part of another module, so that they load only what they need. */
const MAY_CREATE_PARTS = ['gatehouse/commands', 'demo'];

interface Import {
  from: string;
  to: string;
  /** The imported names, without types. */
  names: string[];
}

const imports: Import[] = files.flatMap((from) => [
  ...[...source(from).matchAll(/^(?:import|export)\s+(type\s)?([^;]*?)from '(\.[^']+)';/gms)].map(
    ([, type, clause = '', target = '']) => ({
      from,
      to: relative(src, join(src, dirname(from), target)),
      names: type ? [] : (clause.match(/(?<!type )\b\w+/g) ?? []),
    }),
  ),
  ...[...source(from).matchAll(/(?:const \{([^}]*)\} = await )?\bimport\('(\.[^']+)'\)/g)].map(
    ([, clause = '', target = '']) => ({
      from,
      to: relative(src, join(src, dirname(from), target)),
      names: clause.match(/\w+/g) ?? [],
    }),
  ),
]);

describe('imports', () => {
  test('exist, so that the rules below check something', () => {
    expect(imports.length).toBeGreaterThan(100);
  });

  test('go down, never up or sideways', () => {
    expect(imports.filter(isForbidden).map(({ from, to }) => `${from} -> ${to}`)).toEqual([]);
  });

  test('of functions that create a module come from the file with its name', () => {
    const ofParts = imports.filter(({ from, to, names }) => {
      const folder = dirname(to);
      if (!SELF_ASSEMBLED.includes(folder) || from.startsWith(`${folder}/`)) return false;
      if (MAY_CREATE_PARTS.some((name) => from.startsWith(`${name}/`))) return false;
      return to !== `${folder}/${basename(folder)}.ts` && names.some((name) => name.startsWith('create'));
    });
    expect(ofParts.map(({ from, to }) => `${from} -> ${to}`)).toEqual([]);
    expect(SELF_ASSEMBLED.filter((folder) => !files.includes(`${folder}/${basename(folder)}.ts`))).toEqual([]);
  });

  test('have no cycle, including imports of types', () => {
    expect(cycles()).toEqual([]);
  });

  test('of openid-client are in the provider client, and in files that only it imports', () => {
    const importers = files.filter((path) => /from 'openid-client'/.test(source(path)));
    expect(importers.sort()).toEqual([
      'shared/provider/account-id.ts',
      'shared/provider/client-credentials.ts',
      'shared/provider/provider-client.ts',
      'shared/provider/provider-failures.ts',
      'shared/provider/token-request.ts',
    ]);
    const importsOfImporters = imports.filter(
      ({ from, to, names }) => names.length > 0 && importers.includes(to) && !importers.includes(from),
    );
    expect(new Set(importsOfImporters.map(({ to }) => to))).toEqual(new Set(['shared/provider/provider-client.ts']));
  });

  test('have file extensions, and no index.ts re-exports a folder', () => {
    expect(files.filter((path) => /from '\.[^']*(?<!\.ts)';/.test(source(path)))).toEqual([]);
    expect(files.filter((path) => /(^|\/)index\.ts$/.test(path) || /^export \* from/m.test(source(path)))).toEqual([]);
  });
});

describe('names', () => {
  test('are lower case with hyphens', () => {
    expect(files.filter((path) => !/^([a-z0-9]+(-[a-z0-9]+)*\/)*[a-z0-9]+(-[a-z0-9]+)*(\.d)?\.ts$/.test(path))).toEqual(
      [],
    );
  });

  test('describe the purpose of a file, unlike utils or helpers', () => {
    const vague = /(^|\/)(utils?|helpers?|lib|common|types|misc)(\/|\.ts$)|.\/shared(\/|\.ts$)/;
    expect(files.filter((path) => vague.test(path))).toEqual([]);
  });

  test('of programs and their modules are drawn in docs/architecture.md', () => {
    const text = readFileSync(join(src, '..', 'docs', 'architecture.md'), 'utf8');
    const drawings = [...text.matchAll(/```\n[\s\S]*?```|^\| `.*/gm)].join();
    const drawn = new Set(drawings.split(/[^a-z-]+/));
    const folders = files.flatMap((path) => path.split('/').slice(0, /^(gatehouse|shared)\//.test(path) ? 2 : 1));
    const names = new Set(folders.map((name) => name.replace(/\.ts$/, '')));
    expect([...names].filter((name) => !drawn.has(name))).toEqual([]);
    const named = [...text.matchAll(/`(src\/[\w./-]+)`/g)].map(([, path = '']) => path);
    expect(named.filter((path) => !existsSync(join(src, '..', path)))).toEqual([]);
  });

  test('of modules are in a drawing of this file', () => {
    const drawn = new Set([...LINES.flat(), ...Object.keys(ENTRY_POINTS)]);
    const modules = files.filter((path) => /^(gatehouse|shared)\//.test(path) || !path.includes('/')).map(moduleOf);
    expect([...new Set(modules)].filter((name) => !drawn.has(name))).toEqual([]);
  });
});

describe('files', () => {
  test('start with a comment that says what they do', () => {
    const withoutComment = files.filter((path) => !/^\/\*\*(\s*\*)? [A-Z]/.test(source(path)));
    expect(withoutComment).toEqual([]);
  });

  test('read the environment only where the process begins', () => {
    const inModules = files.filter((path) => !(path in ENTRY_POINTS));
    expect(inModules.filter((path) => /process\.env/.test(source(path)))).toEqual([]);
  });

  test('contain no TODO, no disabled type check and no `as any`', () => {
    expect(
      files.filter((path) => /\b(TODO|FIXME|XXX)\b|@ts-(ignore|nocheck|expect-error)|\bas any\b/.test(source(path))),
    ).toEqual([]);
  });

  test('run no other program, and no text as code', () => {
    const execution = /child_process|['"](node:)?vm['"]|\beval\(|\bFunction\(/;
    expect(files.filter((path) => execution.test(source(path)))).toEqual([]);
  });
});

function isForbidden({ from, to }: Import): boolean {
  const [program = '', target = ''] = [from.split('/')[0], to.split('/')[0]];
  if (program !== target) {
    const allowed = ENTRY_POINTS[program] ?? PROGRAMS[program] ?? [];
    return !allowed.some((name) => to === name || to.startsWith(`${name}/`)) || importsHttp(from, to);
  }
  const [fromModule, toModule] = [moduleOf(from), moduleOf(to)];
  if (!LINES.flat().includes(fromModule) || fromModule === toModule) return false;
  if (SAME_LINE[fromModule]?.includes(toModule)) return false;
  return lineOf(toModule) <= lineOf(fromModule);
}

function importsHttp(from: string, to: string): boolean {
  return WITHOUT_HTTP.includes(moduleOf(from)) && HTTP_ONLY.includes(moduleOf(to));
}

/** The folder of a file in its program, or the file itself if a drawing has it. */
function moduleOf(path: string): string {
  const named = LINES.flat().find((name) => name === path);
  return named ?? path.split('/').slice(0, 2).join('/');
}

function lineOf(name: string): number {
  return LINES.findIndex((line) => line.includes(name));
}

function cycles(): string[] {
  const targets = new Map<string, string[]>();
  for (const { from, to } of imports) targets.set(from, [...(targets.get(from) ?? []), to]);
  const visited = new Set<string>();
  const cyclePaths: string[] = [];
  const walk = (file: string, path: string[]): void => {
    if (path.includes(file)) cyclePaths.push([...path.slice(path.indexOf(file)), file].join(' -> '));
    if (visited.has(file) || path.includes(file)) return;
    for (const target of targets.get(file) ?? []) walk(target, [...path, file]);
    visited.add(file);
  };
  for (const file of files) walk(file, []);
  return cyclePaths;
}
