/** Runs `npm run gatehouse -- COMMAND`: what an operator does from a terminal. */
import './node-version.cjs';
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
    // Only when a command asks for it: `--version` must not look for a demo.
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

/** The settings of the running demo, so that commands which its pages show work on it; without a demo, the environment. */
function readSource(): ConfigSource {
  const demo = settingsOfDemo(process.env);
  if (demo) process.stderr.write(`Uses the settings of the running demo (${demo.file}).\n`);
  return { env: demo?.env ?? process.env, readFile: (path) => readFileSync(path, 'utf8') };
}
