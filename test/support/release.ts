/** The program of a release, taken from the history into a folder of its own, with its own packages. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The release that has to run beside the present program, as `docs/upgrading.md` promises. */
export const RELEASE = '1.0.0-rc.1';

/** By `package.json` and not by the tag, which a clone may lack. */
const commit = commitOf(RELEASE);

export const missingRelease = commit === undefined ? `release ${RELEASE} in the history of git` : undefined;

/** The commit in which `package.json` has this version first; undefined without the whole history. */
function commitOf(version: string): string | undefined {
  try {
    const search = ['log', `-S"version": "${version}"`, '--format=%H', '--', 'package.json'];
    const found = execFileSync('git', search, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return found.trim().split('\n').at(-1) || undefined;
  } catch {
    return undefined;
  }
}

export interface Release {
  folder: string;
  dispose(): void;
}

/** Installs it as `docs/deploy.md` says. @throws Error without that history */
export function unpackRelease(): Release {
  if (commit === undefined) throw new Error(`The history of git has no release ${RELEASE}.`);
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-release-'));
  const archive = execFileSync('git', ['archive', '--format=tar', commit], { cwd: ROOT, maxBuffer: 2 ** 28 });
  execFileSync('tar', ['-x', '-C', folder], { input: archive });
  execFileSync('npm', ['ci', '--omit=dev', '--omit=optional', '--prefer-offline'], { cwd: folder, stdio: 'pipe' });
  return { folder, dispose: () => rmSync(folder, { recursive: true, force: true }) };
}
