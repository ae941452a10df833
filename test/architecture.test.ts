/** Checks the drawing in docs/architecture.md: imports go down, names follow the rules, only entry files read the environment. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';

const src = join(import.meta.dirname, '..', 'src');

/** The lines of the drawing, from top to bottom; a room may use those of lower lines, and itself. */
const LINES: string[][] = [
  ['server.ts', 'demo.ts', 'cli.ts'],
  ['demo', 'ready-text.ts'],
  ['commands'],
  ['start.ts'],
  ['gatehouse.ts'],
  ['reload.ts'],
  ['read-settings.ts'],
  ['app.ts'],
  ['routes.ts'],
  ['sign-in', 'home', 'threads/routes.ts', 'bin/routes.ts', 'grants/routes.ts', 'admin', 'api-docs'],
  ['relay'],
  // Like the faces it may import pages; they import it.
  ['grants/connection-view.ts'],
  ['sign-in-record', 'threads'],
  ['users', 'webhooks'],
  ['grants'],
  ['connected-apps', 'bin', 'audit'],
  ['pages'],
  ['sessions'],
  ['http', 'outbound', 'storage', 'observability'],
  ['file-fault.ts'],
  ['errors.ts'],
  ['config'],
  // By itself, since the sandbox imports this file alone of `config`.
  ['config/networks.ts'],
  ['fair-pool.ts', 'remembered.ts', 'once.ts', 'time.ts', 'text.ts', 'json.ts', 'version.ts'],
];

/** A room, and those of its own line that it may import. */
const SAME_LINE: Record<string, string[]> = { http: ['storage', 'observability', 'outbound'] };

/** The programs beside Gatehouse, and what each may import. */
const PROGRAMS: Record<string, string[]> = {
  sandbox: ['bin-service', 'pages', 'errors.ts', 'config/networks.ts'],
  'bin-service': [
    'bin',
    'pages',
    'sessions',
    'http',
    'storage',
    'observability',
    'outbound',
    'connected-apps',
    'config',
    'errors.ts',
    'config/networks.ts',
    'remembered.ts',
    'text.ts',
    'time.ts',
    'version.ts',
  ],
};
/** Who may import each of these programs. */
const IMPORTERS: Record<string, string[]> = {
  sandbox: ['demo.ts', 'demo'],
  'bin-service': ['sandbox'],
};

/** Only faces may import these: rules know nothing of HTTP, sessions and pages. */
const FACES_ONLY = ['http', 'sessions', 'pages'];
const RULES = ['sign-in-record', 'threads', 'users', 'webhooks', 'grants', 'connected-apps', 'bin', 'audit'];

const ENTRY_FILES = ['server.ts', 'demo.ts', 'cli.ts', 'sandbox/main.ts', 'bin-service/main.ts'];

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
const source = (path: string) => readFileSync(join(src, path), 'utf8');

/** Each is made by the file with its name: other rooms make no part of it. */
const ASSEMBLED = [
  ...['admin', 'api-docs', 'audit', 'bin', 'connected-apps', 'grants', 'home', 'relay', 'sessions', 'sign-in'],
  ...['sign-in-record', 'threads', 'users', 'webhooks'],
];
/** These may make parts of a room: they load no more than they need. */
const MAKES_PARTS = ['commands', 'demo'];

interface Import {
  from: string;
  to: string;
  typeOnly: boolean;
  /** What is imported, types left out. */
  names: string[];
}

const imports: Import[] = files.flatMap((from) =>
  [...source(from).matchAll(/^(?:import|export)\s+(type\s)?([^;]*?)from '(\.[^']+)';/gms)].map(
    ([, type, clause = '', target = '']) => ({
      from,
      to: relative(src, join(src, dirname(from), target)),
      typeOnly: type !== undefined,
      names: type ? [] : (clause.match(/(?<!type )\b\w+/g) ?? []),
    }),
  ),
);

describe('imports', () => {
  test('there are some, so that the rules below judge something', () => {
    expect(imports.length).toBeGreaterThan(100);
  });

  test('go down, never up or sideways', () => {
    expect(imports.filter(isForbidden).map(({ from, to }) => `${from} -> ${to}`)).toEqual([]);
  });

  test('of functions that make a room come from the file with its name', () => {
    const deeper = imports.filter(({ from, to, names }) => {
      const [room = ''] = to.split('/');
      if (!ASSEMBLED.includes(room) || from.startsWith(`${room}/`) || MAKES_PARTS.includes(from.split('/')[0] ?? ''))
        return false;
      return to !== `${room}/${room}.ts` && names.some((name) => name.startsWith('create'));
    });
    expect(deeper.map(({ from, to }) => `${from} -> ${to}`)).toEqual([]);
    expect(ASSEMBLED.filter((room) => !files.includes(`${room}/${room}.ts`))).toEqual([]);
  });

  test('make no cycle', () => {
    expect(cycles()).toEqual([]);
  });

  test('of openid-client are in the provider client, and in files that only it imports', () => {
    const direct = files.filter((path) => /from 'openid-client'/.test(source(path)));
    expect(direct.sort()).toEqual([
      'connected-apps/account-id.ts',
      'connected-apps/client-credentials.ts',
      'connected-apps/provider-client.ts',
      'connected-apps/provider-failures.ts',
      'connected-apps/token-request.ts',
    ]);
    const users = imports.filter(({ from, to }) => direct.includes(to) && !direct.includes(from));
    expect(new Set(users.map(({ to }) => to))).toEqual(new Set(['connected-apps/provider-client.ts']));
  });

  test('name files with their ending, and no index.ts exports those of a folder again', () => {
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

  test('say what a file is for, as utils or helpers would not', () => {
    const vague = /(^|\/)(utils?|helpers?|lib|common|types|misc|shared)(\/|\.ts$)/;
    expect(files.filter((path) => vague.test(path))).toEqual([]);
  });

  test('of rooms are drawn in docs/architecture.md', () => {
    const text = readFileSync(join(src, '..', 'docs', 'architecture.md'), 'utf8');
    const drawing = new Set((/```\n([\s\S]*?)```/.exec(text)?.[1] ?? '').split(/[^a-z-]+/));
    const rooms = files.filter((path) => path.includes('/')).map((path) => path.split('/')[0] ?? '');
    expect([...new Set(rooms)].filter((room) => !drawing.has(room))).toEqual([]);
    const named = [...text.matchAll(/`(src\/[\w./-]+)`/g)].map(([, path = '']) => path);
    expect(named.filter((path) => !existsSync(join(src, '..', path)))).toEqual([]);
  });

  test('of rooms are in LINES or PROGRAMS', () => {
    const rooms = new Set(files.map((path) => path.split('/')[0] ?? ''));
    const planned = new Set([...LINES.flat().map((room) => room.split('/')[0] ?? ''), ...Object.keys(PROGRAMS)]);
    expect([...rooms].filter((room) => !planned.has(room))).toEqual([]);
  });
});

describe('files', () => {
  test('say at their head what they do', () => {
    const without = files.filter((path) => !/^\/\*\*(\s*\*)? [A-Z]/.test(source(path)));
    expect(without).toEqual([]);
  });

  test('read the environment only where the process begins', () => {
    expect(files.filter((path) => !ENTRY_FILES.includes(path) && /process\.env/.test(source(path)))).toEqual([]);
  });

  test('contain no TODO, no switched-off type check and no `as any`', () => {
    expect(
      files.filter((path) => /\b(TODO|FIXME|XXX)\b|@ts-(ignore|nocheck|expect-error)|\bas any\b/.test(source(path))),
    ).toEqual([]);
  });

  test('run no other program and no text as code', () => {
    const ways = /child_process|['"](node:)?vm['"]|\beval\(|\bFunction\(/;
    expect(files.filter((path) => ways.test(source(path)))).toEqual([]);
  });
});

function isForbidden({ from, to }: Import): boolean {
  const [fromRoom, toRoom] = [roomOf(from), roomOf(to)];
  if (fromRoom === toRoom) return false;
  const allowed = PROGRAMS[fromRoom];
  if (allowed) return !allowed.includes(toRoom);
  if (PROGRAMS[toRoom]) return !IMPORTERS[toRoom]?.includes(fromRoom);
  if (FACES_ONLY.includes(toRoom) && RULES.includes(fromRoom)) return true;
  if (SAME_LINE[fromRoom]?.includes(toRoom)) return false;
  return lineOf(toRoom) <= lineOf(fromRoom);
}

/** The room of a file, or the file itself where LINES names it. */
function roomOf(path: string): string {
  const named = LINES.flat().find((room) => room === path);
  return named ?? path.split('/')[0] ?? path;
}

function lineOf(room: string): number {
  return LINES.findIndex((rooms) => rooms.includes(room));
}

function cycles(): string[] {
  const targets = new Map<string, string[]>();
  for (const { from, to, typeOnly } of imports) {
    if (!typeOnly) targets.set(from, [...(targets.get(from) ?? []), to]);
  }
  const done = new Set<string>();
  const found: string[] = [];
  const walk = (file: string, path: string[]): void => {
    if (path.includes(file)) found.push([...path.slice(path.indexOf(file)), file].join(' -> '));
    if (done.has(file) || path.includes(file)) return;
    for (const target of targets.get(file) ?? []) walk(target, [...path, file]);
    done.add(file);
  };
  for (const file of files) walk(file, []);
  return found;
}
