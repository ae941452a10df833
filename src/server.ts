/** Owns `npm start`: Gatehouse with the settings of the environment, until it is told to stop. */
import { existsSync } from 'node:fs';
import { destination } from 'pino';
import { stopOnSignals } from './signals.ts';
import { StartRefused } from './start-refused.ts';

const EX_CONFIG = 78;

if (existsSync('.env')) process.loadEnvFile('.env');
const logs = destination({ fd: 1, sync: false, minLength: 4096, periodicFlush: 250 });
// Most of the program is loaded once signals are heard.
const starting = import('./start.ts').then(({ startGatehouse }) => startGatehouse(process.env, logs));
stopOnSignals(async () => {
  // What is being opened is closed in order once it is.
  await (await starting).close().finally(() => logs.flushSync());
});
try {
  const gatehouse = await starting;
  process.stdout.write(`Gatehouse is ready at ${gatehouse.config.publicUrl.href}\n`);
} catch (error) {
  logs.flushSync();
  process.stderr.write(`${refusal(error)}\n`);
  process.exit(error instanceof StartRefused ? EX_CONFIG : 1);
}

function refusal(error: unknown): string {
  if (error instanceof StartRefused) {
    // What has a cause is no fault of a setting's form.
    const help = error.cause === undefined ? ['The settings are explained in .env.example.'] : [];
    return ['Gatehouse cannot start:', ...error.faults.map((fault) => `- ${fault}`), ...help].join('\n');
  }
  return `Gatehouse cannot start: ${error instanceof Error ? error.message : 'unknown failure'}`;
}
