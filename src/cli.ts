/** Runs `npm run gatehouse -- COMMAND`: what an operator does from a terminal. */
import { existsSync, readFileSync } from 'node:fs';
import { runCommandLine } from './commands/run.ts';

// The reader of the output may stop early (`| head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});
if (existsSync('.env')) process.loadEnvFile('.env');
await runCommandLine(
  {
    source: { env: process.env, readFile: (path) => readFileSync(path, 'utf8') },
    out: process.stdout,
    err: process.stderr,
    setExitStatus: (status) => {
      process.exitCode = status;
    },
  },
  process.argv.slice(2),
);
