/** Runs `npm run gatehouse -- COMMAND`: the command line for operators. */
import './node.cjs';
import { existsSync, readFileSync } from 'node:fs';
import { runCommandLine } from './gatehouse/commands/run.ts';
import { settingsOfDemo } from './shared/config/running-demo.ts';
import type { ConfigSource } from './shared/config/setting.ts';

// The reader of the output may stop early (`| head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});
if (existsSync('.env')) process.loadEnvFile('.env');
let source: ConfigSource | undefined;
await runCommandLine(
  {
    // Read only when a command needs it: `--version` must not look for a demo.
    get source() {
      source ??= readSource();
      return source;
    },
    out: process.stdout,
    err: process.stderr,
    setExitStatus: (status) => {
      process.exitCode = status;
    },
  },
  process.argv.slice(2),
);

/** The running demo's settings, so that commands copied from its pages work on it; the environment if no demo runs. */
function readSource(): ConfigSource {
  const demo = settingsOfDemo(process.env);
  if (demo) process.stderr.write(`Uses the settings of the running demo (${demo.file}).\n`);
  return { env: demo?.env ?? process.env, readFile: (path) => readFileSync(path, 'utf8') };
}
