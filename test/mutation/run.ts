/** `npm run mutation`: runs the mutants of the rooms that were named, and prints the results. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Argument, Command, InvalidArgumentError } from 'commander';
import { count, inWords, isAlive, isOpen, keep, keepForAgain, lastOf, readTried, told } from './report.ts';
import { ROOMS } from './rooms.ts';
import { AGAIN, chosenBy, FROM, nameOf, SAMPLE } from './sample.ts';

const here = import.meta.dirname;
const root = join(here, '..', '..');
const STRYKER = join(here, 'node_modules/@stryker-mutator/core/bin/stryker.js');
const INSTALL_COMMAND = 'npm ci --prefix test/mutation';

interface Options {
  sample: number;
  from: number;
  again?: true;
}

const command = new Command('npm run mutation --')
  .description('Changes the source in small ways, one at a time, and shows which of these changes no test notices.')
  .addArgument(new Argument('[rooms...]', 'only these').choices(Object.keys(ROOMS)))
  .option('--sample <percent>', 'how many of the mutants are tried, the same ones each time', percent, 6)
  .option('--from <percent>', 'how many are passed over first, so that others are tried', percentFromNought, 0)
  .option(
    '--again',
    'only those that no test noticed the last time, or that were not tried, with all tests of the room',
  )
  .addHelpText('after', '\nThe figures go to test/mutation/results.json, each mutant to test/mutation/reports.')
  .parse();

if (!existsSync(STRYKER)) command.error(`Stryker is not installed. Once: ${INSTALL_COMMAND}`);
const rooms = command.args.length > 0 ? command.args : Object.keys(ROOMS);
const options = command.opts<Options>();
if (options.from + options.sample > 100) command.error('--from and --sample are over 100 together.');
say(rooms.map((room) => `${room}: ${inWords(run(room, options))}`).join('\n'));

function run(room: string, { sample, from, again }: Options) {
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    MUTATION_ROOM: room,
    [SAMPLE]: String(sample),
    [FROM]: String(from),
  };
  if (again) env[AGAIN] = keepForAgain(lastOf(room).filter(isOpen).map(nameOf));
  mutate(env);
  const tried = readTried(chosenBy(env));
  if (tried.length === 0 && !again) command.error(`No mutant of ${room} was tried.`);
  const known = keep(room, { sample, from }, tried, again === true);
  for (const mutant of known.filter(isAlive)) say(told(mutant));
  return count(known);
}

function mutate(env: NodeJS.ProcessEnv): void {
  const args = [STRYKER, 'run', join(here, 'stryker.config.ts')];
  const { status } = spawnSync(process.execPath, args, { cwd: root, env, stdio: 'inherit' });
  if (status !== 0) command.error(`Stryker ended with ${status}.`);
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

function percent(value: string): number {
  const number = percentFromNought(value);
  if (number > 0) return number;
  throw new InvalidArgumentError('A number over 0, up to 100.');
}

function percentFromNought(value: string): number {
  const number = Number(value);
  if (number >= 0 && number <= 100) return number;
  throw new InvalidArgumentError('A number from 0 to 100.');
}
