/** Runs `npm start`: Gatehouse with the settings of the environment, until a signal ends it. */
import './node.cjs';
import { existsSync } from 'node:fs';
import { EX_CONFIG, failureText, StartRefused } from './shared/errors.ts';
import { reloadOnSignal, stopOnSignals } from './shared/http/signals.ts';
import { openLogSink } from './shared/observability/log-sink.ts';

if (existsSync('.env')) process.loadEnvFile('.env');
const logs = openLogSink(process.stdout.fd);
// Loaded after the signal handlers are set, because loading takes most of the start.
const starting = import('./gatehouse/start.ts').then(({ startGatehouse }) => startGatehouse(process.env, logs));
stopOnSignals(async (signal) => {
  const since = performance.now();
  // A signal during the start waits until everything is open, and then closes it in order.
  await (await starting).close().finally(() => logs.flush());
  const seconds = Math.round(performance.now() - since) / 1_000;
  const { announce } = await import('./shared/observability/announce.ts');
  const msg = 'Gatehouse has stopped';
  await announce({ text: `${msg}.\n`, msg, facts: { signal, seconds } }, process.stdout, logs);
});
// A signal during the start waits for it, too. A start that fails ends the process.
reloadOnSignal(() =>
  starting.then(
    ({ reload }) => reload(),
    () => undefined,
  ),
);
try {
  const { config, apps } = await starting;
  const [{ readyText }, { announce }] = await Promise.all([
    import('./gatehouse/ready-text.ts'),
    import('./shared/observability/announce.ts'),
  ]);
  await announce(readyText(config, apps()), process.stdout, logs);
} catch (error) {
  await logs.flush();
  process.stderr.write(`${refusal(error)}\n`);
  process.exit(error instanceof StartRefused ? EX_CONFIG : 1);
}

function refusal(error: unknown): string {
  if (error instanceof StartRefused) {
    // An error with a cause comes from files, ports or storage, which .env.example does not explain.
    const help = error.cause === undefined ? ['The settings are explained in .env.example.'] : [];
    return ['Gatehouse cannot start:', ...error.faults.map((fault) => `- ${fault}`), ...help].join('\n');
  }
  return `Gatehouse cannot start: ${failureText(error)}`;
}
