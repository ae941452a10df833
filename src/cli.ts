/** Owns `npm run gatehouse -- COMMAND`: what an operator does from a terminal. */
import { existsSync, readFileSync } from 'node:fs';
import { createProgram } from './commands/program.ts';
import type { Terminal } from './commands/terminal.ts';
import { AppError } from './errors.ts';
import { StartRefused } from './start-refused.ts';

const EX_CONFIG = 78;

// Whoever reads the output may have read enough (`| head`): then the rest is worth nothing.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});
if (existsSync('.env')) process.loadEnvFile('.env');
const terminal: Terminal = {
  source: { env: process.env, readFile: (path) => readFileSync(path, 'utf8') },
  out: process.stdout,
  err: process.stderr,
  setExitStatus: (status) => {
    process.exitCode = status;
  },
};

try {
  await createProgram(terminal).parseAsync();
} catch (error) {
  process.stderr.write(`${refusal(error)}\n`);
  process.exitCode = error instanceof StartRefused ? EX_CONFIG : 1;
}

function refusal(error: unknown): string {
  if (error instanceof StartRefused) {
    // What has a cause is no fault of a setting's form.
    const help = error.cause === undefined ? ['The settings are explained in .env.example.'] : [];
    return ['This cannot be done:', ...error.faults.map((fault) => `- ${fault}`), ...help].join('\n');
  }
  if (error instanceof AppError && error.code === 'storage_unavailable')
    return 'This cannot be done: the storage does not answer. Try again once it is back; what was done so far is kept.';
  const told = error instanceof AppError ? error.detail : undefined;
  return `This cannot be done: ${told ?? (error instanceof Error ? error.message : 'unknown failure')}`;
}
