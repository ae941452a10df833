/** npm packages: with hashes, under allowed licences, and without install scripts (R90). */
import { execFileSync, type StdioOptions } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

interface Locked {
  version: string;
  integrity?: string;
  resolved?: string;
  link?: boolean;
  license?: string;
  dev?: boolean;
  hasInstallScript?: boolean;
}

interface Sbom {
  bomFormat: string;
  components: { name: string; version: string; hashes: unknown[]; properties: { name: string }[] }[];
}

/** The folders of the lockfiles: that of Gatehouse, and that of the bench's peers. */
const FOLDERS = ['.', 'test/bench'] as const;
const lockedIn = (folder: (typeof FOLDERS)[number]) => {
  const lock = JSON.parse(read(join(folder, 'package-lock.json'))) as { packages: Record<string, Locked> };
  return Object.entries(lock.packages).filter(([path]) => path !== '');
};
const entries = lockedIn('.');
const nameOf = (path: string) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

/** Licences for production. Each permits use, change and distribution, and requires only its notice. */
const ALLOWED = new Set(['MIT', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'Apache-2.0', 'BlueOak-1.0.0']);
/** Licences of data, which require attribution: README.md has it. */
const DATA_LICENCES: Readonly<Record<string, string>> = { 'banks-db': 'CC-BY-4.0', 'world-countries': 'ODbL-1.0' };

/** Licences for development only: MPL-2.0 and Unlicense require nothing of code that is not distributed. */
const ALLOWED_FOR_DEVELOPMENT = new Set([...ALLOWED, 'MPL-2.0', 'Unlicense']);

/** Packages that may have install scripts. */
const ALLOWED_INSTALL_SCRIPTS: readonly string[] = [];

test.each(FOLDERS)(
  'R90 every package of the lockfile in %s has its hash, and none is from another registry',
  (folder) => {
    const locked = lockedIn(folder);
    expect(locked.length).toBeGreaterThan(100);
    const unhashed = locked.filter(([, { integrity }]) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''));
    expect(unhashed.map(([path]) => path)).toEqual([]);
    const elsewhere = locked.filter(([, { resolved = 'https://registry.npmjs.org/', link }]) => {
      return link === true || !resolved.startsWith('https://registry.npmjs.org/');
    });
    expect(elsewhere.map(([path]) => path)).toEqual([]);
  },
);

test('R90 there are no lockfiles that these tests do not check', () => {
  const folders = ['src', 'test'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('package-lock.json') && !path.includes('node_modules'))
      .map((path) => dirname(join(folder, path))),
  );
  expect(['.', ...folders.toSorted()]).toEqual(FOLDERS);
});

test('R90 Dependabot checks every lockfile each week', () => {
  const [, ...updates] = read('.github/dependabot.yml').split('- package-ecosystem: ');
  const ofNpm = updates.filter((update) => update.startsWith('npm\n'));
  const folders = ofNpm.map((update) => /^ +directory: \/(.*)$/m.exec(update)?.[1] || '.');
  expect(folders).toEqual(FOLDERS);
  for (const update of updates) expect(update).toContain('interval: weekly');
});

describe.each(FOLDERS)('R90 install scripts in %s', (folder) => {
  const locked = lockedIn(folder);

  test('are disabled, and the packages that have some are listed here', () => {
    expect(read(join(folder, '.npmrc'))).toMatch(/^ignore-scripts=true$/m);
    const scripted = locked.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => nameOf(path));
    expect(scripted).toEqual(ALLOWED_INSTALL_SCRIPTS);
  });

  test('no installed package has one that the lockfile does not show', () => {
    const installed = locked
      .map(([path]) => join(folder, path, 'package.json'))
      .filter((path) => existsSync(join(root, path)));
    // The peers are installed only to run the bench.
    if (folder === '.') expect(installed.length).toBeGreaterThan(100);
    const scripted = installed.filter((path) => {
      const { scripts = {} } = JSON.parse(read(path)) as { scripts?: Record<string, string> };
      return ['preinstall', 'install', 'postinstall'].some((name) => name in scripts);
    });
    expect(scripted.map((path) => nameOf(path).replace('/package.json', ''))).toEqual(ALLOWED_INSTALL_SCRIPTS);
    expect(locked.filter(([path]) => existsSync(join(root, folder, path, 'binding.gyp')))).toEqual([]);
  });
});

describe('licences', () => {
  const shipped = entries.filter(([, { dev }]) => !dev);
  /** The packages without an allowed licence. With a choice of licences (SPDX `OR`), one allowed licence is enough. */
  const withoutAllowedLicence = (locked: typeof entries, allowed: ReadonlySet<string>) => {
    const names: string[] = [];
    for (const [path, { license = '' }] of locked) {
      const choices = license.replace(/^\((.*)\)$/, '$1').split(' OR ');
      if (!choices.some((choice) => allowed.has(choice))) names.push(`${nameOf(path)}: ${license}`);
    }
    return names;
  };

  test('of production packages are allowed, or listed as data', () => {
    expect(shipped.length).toBeGreaterThan(50);
    const code = shipped.filter(([path]) => !(nameOf(path) in DATA_LICENCES));
    expect(withoutAllowedLicence(code, ALLOWED)).toEqual([]);
  });

  test.each(FOLDERS)('of packages only for development, in %s, are allowed', (folder) => {
    const locked = folder === '.' ? entries.filter(([, { dev }]) => dev) : lockedIn(folder);
    expect(locked.length).toBeGreaterThan(50);
    expect(withoutAllowedLicence(locked, ALLOWED_FOR_DEVELOPMENT)).toEqual([]);
  });

  test('of data are unchanged, and attributed', () => {
    for (const [name, licence] of Object.entries(DATA_LICENCES)) {
      const { license, licenses } = JSON.parse(read(`node_modules/${name}/package.json`));
      expect(license ?? licenses[0].type).toBe(licence);
      expect(read('README.md')).toContain(`[${name}](`);
    }
  });
});

test('R90 `npm run sbom` lists all packages of the lockfile, and marks those for development', () => {
  const stdio: StdioOptions = ['ignore', 'pipe', 'ignore'];
  const { bomFormat, components } = JSON.parse(
    execFileSync('npm', ['run', '-s', 'sbom'], { cwd: root, encoding: 'utf8', stdio }),
  ) as Sbom;
  expect(bomFormat).toBe('CycloneDX');
  const locked = entries.map(([path, { version }]) => `${nameOf(path)}@${version}`);
  expect(new Set(components.map(({ name, version }) => `${name}@${version}`))).toEqual(new Set(locked));
  const marked = components.filter(({ properties }) => properties.some(({ name }) => /:development$/.test(name)));
  const { dependencies, devDependencies } = JSON.parse(read('package.json')) as Record<string, object>;
  const direct = new Set(Object.keys({ ...dependencies, ...devDependencies }));
  const markedDirect = new Set(marked.map(({ name }) => name).filter((name) => direct.has(name)));
  expect(markedDirect).toEqual(new Set(Object.keys(devDependencies ?? {})));
  expect(components.filter(({ hashes }) => hashes.length === 0)).toEqual([]);
});

describe('R90 the CI', () => {
  const workflow = read('.github/workflows/ci.yml');

  test('audits packages for production and development, and stores the SBOM', () => {
    expect(workflow).toMatch(/run: npm audit --package-lock-only --omit=dev --audit-level=moderate$/m);
    for (const folder of FOLDERS) {
      const option = folder === '.' ? '' : ` --prefix ${folder}`;
      expect(workflow).toMatch(new RegExp(`run: npm audit --package-lock-only --audit-level=high${option}$`, 'm'));
    }
    expect(workflow).toMatch(/run: npm run -s sbom > /);
  });

  test('pins actions by commit, not by a tag, which can be moved', () => {
    const workflows = readdirSync(join(root, '.github', 'workflows')).map((name) => read(`.github/workflows/${name}`));
    const actions = [...workflows.join('\n').matchAll(/uses: (.+)$/gm)].map(([, action]) => action);
    expect(actions.length).toBeGreaterThan(2);
    for (const action of actions) expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });
});
