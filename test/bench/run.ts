/** `npm run bench`: runs the parts that were named. With `--check` it fails if a target is missed. */
import { Argument, Command, InvalidArgumentError } from 'commander';
import { missingRedis } from '../support/redis-server.ts';
import { benchAdmin } from './admin-lists.ts';
import { apacheIsInstalled, INSTALL_APACHE } from './apache.ts';
import { benchBinData } from './bin-data.ts';
import { benchBinLookUps } from './bin-lookups.ts';
import { type Effort, print } from './effort.ts';
import { type Finding, isMissed } from './findings.ts';
import { benchHangUps } from './hang-ups.ts';
import { INSTALL_COMMAND, installPeers, peersAreInstalled } from './peers.ts';
import { benchRefreshStorm } from './refresh-storm.ts';
import { benchSignIns } from './sign-ins.ts';
import { benchStorage } from './storage-growth.ts';
import { benchThreads } from './threads.ts';
import { benchProcesses, benchUsers } from './users.ts';

const PARTS: Record<string, { about: string; run: (effort: Effort) => Promise<Finding[]> }> = {
  threads: {
    about: 'GET /threads/current and /relay/threads/current beside a bare proxy and the peers',
    run: benchThreads,
  },
  'hang-up': { about: '2,000 clients that disconnect during a response', run: benchHangUps },
  bin: { about: 'BIN lookups compared with servers that only send JSON', run: benchBinLookUps },
  'bin-data': { about: 'a data set of 375,000 rows: import, start, lookups in bulk', run: benchBinData },
  'sign-in': { about: 'the whole flow through an identity provider', run: benchSignIns },
  refresh: { about: 'a refresh storm on four processes', run: benchRefreshStorm },
  users: { about: '1, 1,000 and 100,000 people signed in: CPU, memory, storage', run: benchUsers },
  admin: { about: 'every list and search of the administration with 100,000 users', run: benchAdmin },
  storage: { about: 'a storage with 100,000 users: size, start, backup, restore, key rotation', run: benchStorage },
  processes: { about: 'two processes against one', run: benchProcesses },
};

const command = new Command('npm run bench --')
  .description('Measures Gatehouse as shipped, in turn with its peers, in one run: about half an hour for all parts.')
  .addArgument(new Argument('[parts...]', 'only these parts').choices(Object.keys(PARTS)))
  .option('--check', 'ends with 1 where a target is missed')
  .option('--seconds <number>', 'length of each run', positive, 2)
  .option('--runs <number>', 'how often each contestant runs; medians count', positive, 5)
  .option('--users <number>', 'how many users the parts admin and storage have', positive, 100_000)
  .option('--peers', `installs the peers first, as "${INSTALL_COMMAND}" does`)
  .addHelpText('after', `\nParts:\n${partList()}\n\nThe part threads draws docs/bench.svg.`)
  .parse();
const { check, seconds, runs, users, peers } = command.opts<Effort & { check?: true; peers?: true }>();

if (peers) installPeers();
const missing = [
  peersAreInstalled() ? [] : [`The peers are not installed, and left out. To install them: ${INSTALL_COMMAND}`],
  apacheIsInstalled() ? [] : [`Apache with mod_auth_openidc is left out. To install it on Debian: ${INSTALL_APACHE}`],
  missingRedis === undefined ? [] : ['There is no redis-server on PATH: what needs one, the peers too, is left out.'],
].flat();
print(missing.map((line) => `${line}\n`).join(''));

const outcomes = new Map<string, Finding[]>();
const failed: string[] = [];
for (const [name, { run }] of Object.entries(PARTS)) {
  if (command.args.length > 0 && !command.args.includes(name)) continue;
  try {
    outcomes.set(name, await run({ seconds, runs, users }));
  } catch (error) {
    failed.push(name);
    print(`\n${name} could not be measured: ${error instanceof Error ? error.message : String(error)}\n`);
  }
}

const missed = [...outcomes].flatMap(([name, findings]) =>
  findings.filter(isMissed).map(({ what }) => `${name}: ${what}`),
);
if (missed.length > 0)
  print(
    `\nBelow their targets, if the machine had nothing else to do:\n${missed.map((target) => `  ${target}\n`).join('')}`,
  );
print(`\n${[...missing, ...failed.map((name) => `Not measured: ${name}.`)].map((line) => `${line}\n`).join('')}`);
const isIncomplete = missed.length > 0 || missing.length > 0;
process.exit(failed.length > 0 || (check && isIncomplete) ? 1 : 0);

function positive(text: string): number {
  const number = Number(text);
  if (number > 0) return number;
  throw new InvalidArgumentError('It has to be a number above 0.');
}

function partList(): string {
  return Object.entries(PARTS)
    .map(([name, { about }]) => `  ${name.padEnd(10)} ${about}`)
    .join('\n');
}
