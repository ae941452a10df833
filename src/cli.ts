/** Runs `npm run gatehouse -- COMMAND`: what an operator does from a terminal. */
import './node-version.cjs';
import { existsSync, readFileSync } from 'node:fs';
import { runCommandLine } from './commands/run.ts';
import { settingsOfDemo } from './config/running-demo.ts';

// The reader of the output may stop early (`| head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});
if (existsSync('.env')) process.loadEnvFile('.env');
// The commands that pages of the demo show work on the demo.
const demo = settingsOfDemo(process.env);
if (demo) process.stderr.write(`Uses the settings of the running demo (${demo.file}).\n`);
await runCommandLine(
  {
    source: { env: demo?.env ?? process.env, readFile: (path) => readFileSync(path, 'utf8') },
    out: process.stdout,
    err: process.stderr,
    setExitStatus: (status) => {
      process.exitCode = status;
    },
  },
  process.argv.slice(2),
);
