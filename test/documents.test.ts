/** Compares documents with the code: settings, commands, promises. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { beforeAll, describe, expect, test } from 'vitest';
import { createProgram } from '../src/gatehouse/commands/program.ts';
import { parseConnectedApps } from '../src/gatehouse/connected-apps/app-file.ts';
import { loadConfig } from '../src/shared/config/config.ts';
import { SETTINGS } from '../src/shared/config/settings.ts';
import { connectedAppSchema } from '../src/shared/provider/connected-app.ts';
import { generateEncryptionKey } from '../src/shared/storage/key-ring.ts';
import { exampleFile, isRequired } from './support/example-file.ts';
import { selfSigned } from './support/self-signed.ts';

const root = join(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const PREAMBLE = `Settings of Gatehouse. Copy this file to .env, or set these as environment variables.
Each secret can also be given as NAME_FILE: the path of a file that holds it.
A line that is commented out shows the default, or an example where there is none.`;

const REQUIRED = Object.entries(SETTINGS).flatMap(([name, setting]) => (isRequired(setting) ? [name] : []));

describe('.env.example', () => {
  test('is generated from the table of settings', async () => {
    await expect(exampleFile(PREAMBLE, SETTINGS)).toMatchFileSnapshot(join(root, '.env.example'));
  });

  test('has only required settings uncommented, and every secret empty', () => {
    const set = [...read('.env.example').matchAll(/^([A-Z][A-Z0-9_]*)=(.*)$/gm)];
    expect(set.map(([, name]) => name)).toEqual(REQUIRED);
    const secrets = Object.entries(SETTINGS).filter(([, setting]) => 'secret' in setting);
    for (const [name] of secrets) expect(read('.env.example')).toMatch(new RegExp(`^#?${name}=$`, 'm'));
  });
});

describe('the values in .env.example', () => {
  const shown = Object.fromEntries(
    [...read('.env.example').matchAll(/^#([A-Z][A-Z0-9_]*)=(.+)$/gm)].map(([, name = '', value = '']) => [name, value]),
  );
  // Settings that other settings require.
  const requiredByOthers = {
    PUBLIC_URL: 'https://gatehouse.example.com',
    SESSION_SECRETS: 'q8Zr1vT6yLw3Xn5Kd7Pm9Bc2Hf4Jg0Sa',
    ENCRYPTION_KEYS: 'k1:AAAA',
    BIN_SERVICE_URL: shown.BIN_SERVICE_URL,
    OTEL_EXPORTER_OTLP_ENDPOINT: shown.OTEL_EXPORTER_OTLP_ENDPOINT,
    REDIS_SENTINELS: 'sentinel:26379',
    REDIS_SENTINEL_NAME: 'gatehouse',
    REDIS_CERT_FILE: shown.REDIS_CERT_FILE,
    REDIS_KEY_FILE: shown.REDIS_KEY_FILE,
  };
  const { cert, key } = selfSigned('localhost');
  const readFile = (path: string) => (path.endsWith('.key') ? key : /\.(crt|pem)$/.test(path) ? cert : '');
  const load = (env: object) => loadConfig({ env: { ...requiredByOthers, ...env }, readFile });
  const defaults = load({});

  test.each(Object.keys(shown))('%s is valid, and is the default if there is one', (name) => {
    const { values, faults } = load({ [name]: shown[name] });
    expect(faults).toEqual([]);
    const changedValues = leavesOf(values);
    const changedDefaults = [...leavesOf(defaults.values)].filter(
      ([path, value]) => value !== undefined && changedValues.get(path) !== value,
    );
    expect(changedDefaults).toEqual([]);
  });
});

describe('the settings in README', () => {
  const [, block = ''] = /^cat > \.env <<END\n([\s\S]*?)^END$/m.exec(read('README.md')) ?? [];
  const COMMAND_OUTPUTS: Record<string, string> = {
    '$(openssl rand -base64 48)': 'q8Zr1vT6yLw3Xn5Kd7Pm9Bc2Hf4Jg0Sa',
    '$(npm run -s gatehouse -- keys generate)': generateEncryptionKey(new Date()),
  };
  const written = Object.fromEntries(
    [...block.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name = '', value = '']) => [
      name,
      COMMAND_OUTPUTS[value] ?? value,
    ]),
  );

  test('include the required ones, and suffice for a start', () => {
    expect(Object.keys(written)).toEqual(expect.arrayContaining(REQUIRED));
    expect(loadConfig({ env: written, readFile: () => '' }).faults).toEqual([]);
  });

  test('name the file of connected apps, and have what its example needs', () => {
    const [, example = ''] = /^```json\n([\s\S]*?)^```$/m.exec(read('docs/connected-apps.md')) ?? [];
    const { apps, faults } = parseConnectedApps(example, { env: written, readFile: () => '' });
    expect([faults, apps.length]).toEqual([[], 1]);
    const others = Object.keys(written).filter((name) => !(name in SETTINGS));
    expect(example).toContain(`"clientSecret": { "env": "${others.join()}" }`);
  });
});

test('docs/app-fields.md explains exactly the fields of a connected app', () => {
  const [fields = ''] = read('docs/app-fields.md').split('\n## Several tenants\n');
  const explained = [...fields.matchAll(/^\| ((?:`\w+`(?:, )?)+) \| .+ \|$/gm)].flatMap(([, names = '']) =>
    names.match(/\w+/g),
  );
  expect(explained.toSorted()).toEqual([...Object.keys(connectedAppSchema.shape), 'clientSecret'].toSorted());
});

describe('npm scripts', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };

  test('docs/testing.md explains each, in the order of package.json', () => {
    const [, section = ''] = read('docs/testing.md').split('\n## All npm scripts\n');
    const rows = [...(section.split('\n## ')[0] ?? '').matchAll(/^\| `npm (?:run )?([\w:-]+)` \| .{20,} \|$/gm)];
    expect(rows.map(([, name]) => name)).toEqual(Object.keys(scripts));
  });

  test('in documents, settings and the CI exist', () => {
    const documents = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'));
    const files = [
      ...documents.map((name) => `docs/${name}`),
      // Not the changelog, whose old releases name removed scripts.
      ...[
        'README.md',
        'CONTRIBUTING.md',
        '.env.example',
        'docs/bin-lookup-service.env.example',
        'compose.yaml',
        '.ci/run',
      ],
      '.github/workflows/ci.yml',
    ];
    const named = files.flatMap((file) =>
      [...read(file).matchAll(/\bnpm (?:run (?:-s )?([a-z][\w:-]*)|(start|test)\b)/g)].map(([, run, shortcut]) => ({
        file,
        name: run ?? shortcut ?? '',
      })),
    );
    expect(named.length).toBeGreaterThan(40);
    expect(named.filter(({ name }) => !(name in scripts))).toEqual([]);
  });
});

describe('commands', () => {
  const nowhere = { source: { env: {}, readFile: () => '' }, out: process.stdout, err: process.stderr };
  interface RunnableCommand {
    path: string;
    usage: string;
    options: string[];
  }
  const runnableCommands = (command: Command, path: string[] = []): RunnableCommand[] => {
    const below = command.commands.flatMap((subcommand) => runnableCommands(subcommand, [...path, subcommand.name()]));
    // A command with arguments can be run, even if it has subcommands.
    const isGroup = command.commands.length > 0 && command.registeredArguments.length === 0;
    if (isGroup) return below;
    const usage = [...path, ...command.registeredArguments.map(usageOf)].join(' ');
    const options = command.options.flatMap(({ long }) => long ?? []);
    return [{ path: path.join(' '), usage, options }, ...below];
  };
  let commands: RunnableCommand[];
  beforeAll(async () => {
    commands = runnableCommands(await createProgram({ ...nowhere, setExitStatus: () => undefined }));
  });

  test('docs/operating-reference.md explains each, in the order of --help', () => {
    const [, section = ''] = read('docs/operating-reference.md').split('\n## Commands\n');
    const rows = [...(section.split('\n## ')[0] ?? '').matchAll(/^\| `([^`]+)` \| .{20,} \|$/gm)].map(
      ([, usage]) => usage,
    );
    expect(rows).toEqual(commands.map(({ usage }) => usage));
  });

  test('in documents, pages and settings exist, with their options', () => {
    const sources = ['docs', 'views', 'src'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
        .filter((path) => /\.(md|eta|ts)$/.test(path))
        .map((path) => join(folder, path)),
    );
    const files = [...sources, 'README.md', 'CHANGELOG.md', 'SECURITY.md', '.env.example', 'compose.yaml'];
    const calls = files.flatMap((file) =>
      [...read(file).matchAll(/(?:gatehouse --|src\/cli\.ts) ([a-z][^`'\n<&|>)]*)/g)].map(([, call = '']) => ({
        file,
        call,
      })),
    );
    expect(calls.length).toBeGreaterThan(20);
    const invalid = calls.filter(({ call }) => {
      // "backup verify" matches two commands. The longer name comes later in the list.
      const command = commands.findLast(({ path }) => `${call} `.replace(/[.,;:'"] /g, ' ').startsWith(`${path} `));
      const options: string[] = call.match(/--[a-z-]+/g) ?? [];
      return !command || options.some((option) => !command.options.includes(option));
    });
    expect(invalid).toEqual([]);
  });
});

describe('releases', () => {
  const { version } = JSON.parse(read('package.json'));
  const headings = [...read('CHANGELOG.md').matchAll(/^## (.+)$/gm)].map(([, heading = '']) => heading);
  const [released = ''] = headings.filter((heading) => heading !== 'Unreleased');
  const [newestRelease] = released.split(', ');

  test('the changelog begins with the notes of the version of package.json, which are Unreleased while it ends with dev', () => {
    expect(released).toMatch(/^\d+\.\d+\.\d+(-rc\.\d+)?, \d{4}-\d\d-\d\d$/);
    expect(headings[0]).toBe(version.endsWith('dev') ? 'Unreleased' : released);
    if (!version.endsWith('dev')) expect(newestRelease).toBe(version);
  });

  test.each([
    ['docs/deploy.md', /^VERSION=v(.+)$/gm, 1],
    ['docs/upgrading.md', /^VERSION=v(.+)$/gm, 1],
    ['docs/upgrading.md', /annotated tag \(`v([^`]+)`\)/g, 1],
    ['docs/kubernetes.md', /\/gatehouse:([\w.-]+\w)/g, 2],
    ['docs/kubernetes.yaml', /\/gatehouse:(\S+)$/gm, 1],
    ['docs/deploy.md', /\/gatehouse:([\w.-]+\w)/g, 3],
    ['compose.yaml', /\/gatehouse:([\w.-]+\w)/g, 2],
    ['SECURITY.md', /^VERSION=(.+)$/gm, 1],
  ])('%s names the newest release of the changelog, not the version of main', (path, named, count) => {
    expect([...read(path).matchAll(named)].map(([, name]) => name)).toEqual(Array(count).fill(newestRelease));
  });

  test('docs/upgrading.md quotes each refusal exactly', () => {
    const quoted = [...read('docs/upgrading.md').matchAll(/^\| `([^`]+)` \|/gm)].map(([, text = '']) => text);
    expect(quoted).toHaveLength(4);
    const files = ['schema-version.ts', 'refused.ts', 'sqlite/database.ts'].map((name) => `src/shared/storage/${name}`);
    const sources = files.map(read).join('\n');
    for (const text of quoted) {
      // The source has placeholders for values.
      const parts = text.split(/\d+|…/).map((part) => part.trim());
      for (const part of parts.filter((text) => text.length > 1)) expect(sources).toContain(part);
    }
  });
});

describe('links between documents', () => {
  const files = [
    'README.md',
    'CHANGELOG.md',
    'SECURITY.md',
    ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`),
  ];
  const links = files
    .filter((file) => file.endsWith('.md'))
    .flatMap((file) =>
      [...read(file).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].map(([, path = '', anchor]) => ({
        from: file,
        to: path === '' ? file : join(dirname(file), path),
        anchor,
      })),
    );

  test('lead to existing files and headings', () => {
    expect(links.length).toBeGreaterThan(50);
    const broken = links.filter(({ to, anchor }) => {
      return !existsSync(join(root, to)) || (anchor !== undefined && !anchorsOf(to).has(anchor));
    });
    expect(broken).toEqual([]);
  });

  test('lead from README to every document', () => {
    // The loop also visits the files that it adds.
    const reached = new Set(['README.md']);
    for (const file of reached) for (const { from, to } of links) if (from === file) reached.add(to);
    const paths = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((path) => `docs/${path}`);
    const documents = paths.filter((path) => statSync(join(root, path)).isFile());
    expect(documents.length).toBeGreaterThan(15);
    expect(documents.filter((path) => !reached.has(path))).toEqual([]);
  });

  test('no document has conflict markers', () => {
    const texts = files.filter((file) => file.endsWith('.md'));
    expect(texts.filter((file) => /^(<{7}|={7}|>{7})( |$)/m.test(read(file)))).toEqual([]);
  });

  test('lead to every picture, each of which is small enough for a page', () => {
    const shown = new Set(links.map(({ to }) => to));
    const pictures = files.filter((file) => /\.(png|svg)$/.test(file));
    expect(pictures.filter((file) => !shown.has(file))).toEqual([]);
    expect(pictures.filter((file) => statSync(join(root, file)).size > 150_000)).toEqual([]);
  });
});

describe('docs/security.md', () => {
  const promised = [...read('docs/security.md').matchAll(/^\| ([RF]\d+) \| ?(✓?) ?\|/gm)];
  const cited = new Set(testNames().flatMap((name) => name.match(/\b[RF]\d{1,3}\b/g) ?? []));

  test('has every number of the requirements and faults, in order', () => {
    const expected = [...numbers('R', 146), ...numbers('F', 29)];
    expect(promised.map(([, number]) => number)).toEqual(expected);
  });

  test('ticks exactly the numbers in names of tests', () => {
    const ticked = promised.filter(([, , tick]) => tick === '✓').map(([, number]) => number);
    expect(ticked).toEqual(promised.map(([, number = '']) => number).filter((number) => cited.has(number)));
  });

  test.each([
    ['docs/asvs.md', 80],
    ['docs/conformance.md', 20],
    ['docs/reliability.md', 5],
  ])('has ticked each number that %s cites', (document, min) => {
    const ticked = new Set(promised.filter(([, , tick]) => tick === '✓').map(([, number]) => number));
    const named = read(document).match(/\b[RF]\d{1,3}\b/g) ?? [];
    expect(named.length).toBeGreaterThanOrEqual(min);
    expect(named.filter((number) => !ticked.has(number))).toEqual([]);
  });
});

describe('docs/asvs.md', () => {
  const [head = '', ...sections] = read('docs/asvs.md').split('\n## ');

  test('has each chapter of ASVS 5.0.0 except WebRTC, in order', () => {
    const chapters = [...read('docs/asvs.md').matchAll(/^\| (V\d+) /gm)].map(([, chapter]) => chapter);
    expect(chapters).toEqual(numbers('V', 16));
  });

  test.each([
    ['Not met', /(\d+) are not\s+met/],
    ['Met in part', /(\d+) are met in part/],
    ['Does not apply', /(\d+) do not apply/],
  ])('%s: lists as many requirements as its head counts, each once', (heading, counted) => {
    const section = sections.find((text) => text.startsWith(`${heading}\n`)) ?? '';
    const named = [...section.matchAll(/\bV(\d+\.\d+)\.(\d+)(?:-(\d+))?/g)].flatMap(
      ([, chapter, first, last = first]) =>
        Array.from({ length: Number(last) - Number(first) + 1 }, (_, n) => `V${chapter}.${Number(first) + n}`),
    );
    expect(named).toEqual([...new Set(named)]);
    expect(named.length).toBe(Number(counted.exec(head)?.[1]));
  });
});

/** The anchors that GitHub generates from the headings. */
function anchorsOf(file: string): Set<string> {
  const headings = [...read(file).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) => title.toLowerCase());
  return new Set(headings.map((title) => title.replace(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(' ', '-')));
}

/** Every value of the settings by its path. An empty list has none. */
function leavesOf(value: unknown, path = ''): Map<string, unknown> {
  if (typeof value !== 'object' || value === null) return new Map([[path, value]]);
  return new Map(Object.entries(value).flatMap(([name, member]) => [...leavesOf(member, `${path}/${name}`)]));
}

function usageOf(argument: Command['registeredArguments'][number]): string {
  const name = argument.name().toUpperCase();
  return argument.required ? name : `[${name}]`;
}

function numbers(letter: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${letter}${index + 1}`);
}

/** The first argument of every `test`, `it`, `describe`, and of `fault`, the helper of the fault tests. */
function testNames(): string[] {
  const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('.ts'),
  );
  return files.flatMap((path) => testNamesOf(read(join('test', path))));
}

function testNamesOf(source: string): string[] {
  return [
    ...source.matchAll(/\b(?:test|it|describe|fault)(?:\.\w+)*(?:\([^'"`]*\))?\(\s*(['"`])((?:\\.|(?!\1).)*)\1/gs),
  ].map(([, , name = '']) => name);
}
