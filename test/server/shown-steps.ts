/** Finds the steps that a document shows, and runs them with stand-ins for programs that change a machine. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { LONG_TIMEOUT } from '../support/until.ts';

/** Returns the shell blocks in their order, including those in lists. */
export function stepsOf(text: string): string[] {
  return [...text.matchAll(/^( *)```sh\n([\s\S]*?)^\1```$/gm)].map(([, indent = '', steps = '']) =>
    steps.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );
}

/** Returns the section below this heading, up to the next heading of the same or a higher level. */
export function sectionOf(text: string, heading: string): string {
  const [marks = ''] = heading.split(' ');
  const [, rest = ''] = text.split(`\n${heading}\n`);
  return rest.split(new RegExp(`^#{2,${marks.length}} `, 'm'))[0] ?? '';
}

/** Returns the text that the steps write to this file. */
export function writtenTo(text: string, file: string): string {
  return new RegExp(`^cat >>? ${RegExp.escape(file)} <<'?END'?\\n([\\s\\S]*?)^END$`, 'm').exec(text)?.[1] ?? '';
}

const HERE_DOCUMENT = /<<('?)(\w+)\1\n([\s\S]*?)^\2$/gm;
const SUBSTITUTION = /\$\(([^()]*)\)/g;
/** Matches the text that may precede a command. */
const LEADING = /^(?:(?:do|then|else|if|while|until|exec|!|\{|\w+=\S*)(?:\s+|$))*/;
/** Programs that run the command after them. */
const RUNNERS = /^(?:as-gatehouse|runuser -u \S+ --)\s+/;

/** Returns the first word of every command. */
export function programsOf(steps: string): string[] {
  // In a here-document whose mark is not quoted, $(…) is run.
  const texts: string[] = [];
  const commands = steps.replaceAll(HERE_DOCUMENT, (_all, quote: string, _mark, text: string) => {
    if (quote === '') texts.push(text);
    return '';
  });
  const substituted = [...texts, commands].flatMap((text) =>
    [...text.matchAll(SUBSTITUTION)].map(([, command = '']) => command),
  );
  const plain = commands
    .replaceAll('\\\n', ' ')
    .replaceAll(SUBSTITUTION, 'substituted')
    .replaceAll(/'[^']*'|"[^"]*"/g, 'quoted')
    .replaceAll(/(?:^|\s)#.*$/gm, '');
  const all = [plain, ...substituted].flatMap((text) => text.split(/\n|;|&&|\|\|?|[()]/)).flatMap(programsOfCommand);
  return [...new Set(all)];
}

function programsOfCommand(text: string): string[] {
  const command = text.trim().replace(LEADING, '');
  const [word = ''] = command.split(/\s+/);
  if (['', 'for', 'done', 'fi', '}', 'quoted'].includes(word) || word.startsWith('$')) return [];
  const [runner] = RUNNERS.exec(command) ?? [];
  return runner === undefined
    ? [word]
    : [word, ...programsOfCommand(command.slice(runner.length).replace(/^\$\w+ /, ''))];
}

/** Creates a folder that is deleted after the test. */
export function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-steps-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * Runs the steps in this folder like the shell of root on Debian (umask 022).
 * @param standIns names of programs with the shell script in place of each. Every call is recorded, and a script may add
 *   lines to "$CALLED"
 */
export function runSteps(
  steps: string,
  { folder, standIns }: { folder: string; standIns: Readonly<Record<string, string>> },
): { status: number | null; called: string[]; errors: string } {
  const bin = join(folder, 'bin');
  const CALLED = join(folder, 'called');
  mkdirSync(bin, { recursive: true });
  for (const [name, body] of Object.entries(standIns)) {
    writeFileSync(join(bin, name), `#!/bin/sh\necho "${name} $*" >> "$CALLED"\n${body}\n`, { mode: 0o755 });
  }
  const env = { PATH: `${bin}:${process.env.PATH}`, CALLED };
  const options = { cwd: folder, env, encoding: 'utf8', ...LONG_TIMEOUT } as const;
  const { status, stderr } = spawnSync('sh', ['-c', `umask 022\n${steps}`], options);
  const called = existsSync(CALLED) ? readFileSync(CALLED, 'utf8').trimEnd().split('\n') : [];
  return { status, called, errors: stderr };
}
