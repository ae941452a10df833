/**
 * The program behind `npm run bin-lookup-service`: serves until SIGINT or SIGTERM. Its subcommands are for the
 * operator.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { type Account, type Accounts, createAccounts } from './bin-lookup-service/accounts.ts';
import type { BinServiceSettings } from './bin-lookup-service/settings.ts';
import { openBinServiceStore, readBinServiceSettings, startBinService } from './bin-lookup-service/start.ts';
import { EX_CONFIG, failureText, StartRefused, withoutArguments } from './shared/errors.ts';
import { stopOnSignals } from './shared/http/signals.ts';
import { announce } from './shared/observability/announce.ts';
import { createEvents } from './shared/observability/events.ts';
import { openLogSink } from './shared/observability/log-sink.ts';
import { createLogger } from './shared/observability/logger.ts';
import { createMetrics } from './shared/observability/metrics.ts';
import { isoTime } from './shared/time.ts';
import { VERSION } from './shared/version.ts';

const program = new Command('npm run bin-lookup-service --')
  .description('The BIN lookup service: GET /{bin}. Settings are in the environment, or in .env.bin-lookup-service.')
  .version(VERSION)
  .showHelpAfterError()
  .configureOutput({ outputError: (text, write) => write(withoutArguments(text)) })
  .action(serve);

const plan = program.command('plan').description('confirm and end the plans of accounts');

plan
  .command('requests')
  .description('list the accounts that have requested a plan, oldest request first')
  .option('--json', 'print a list of {"account", "name", "email", "plan", "order", "requestedAt"} (use npm run -s)')
  .action(({ json }: { json?: true }) => withAccounts(async (accounts) => print(await accounts.requests(), json)));

plan
  .command('confirm')
  .argument('<account>', 'the account id, shown on the account page')
  .description('give an account the plan that it has requested')
  .action((id: string) =>
    withAccounts(async (accounts) => {
      const account = await accounts.confirmPlan(id);
      if (!account?.plan)
        return refuse('This account has not requested a plan. See: npm run bin-lookup-service -- plan requests');
      const { name, monthlyRequests } = account.plan;
      return say(`${id} has the plan ${name}: ${monthlyRequests} requests a month.`);
    }),
  );

plan
  .command('end')
  .argument('<account>', 'the account id, shown on the account page')
  .description('end the plan of an account and any request for one; its keys are refused from then on')
  .action((id: string) =>
    withAccounts(async (accounts) => {
      const account = await accounts.endPlan(id);
      return account ? say(`${id} no longer has a plan.`) : refuse('There is no account with this id.');
    }),
  );

if (existsSync('.env.bin-lookup-service')) process.loadEnvFile('.env.bin-lookup-service');
try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`${refusal(error)}\n`);
  process.exit(error instanceof StartRefused ? EX_CONFIG : 1);
}

async function serve(): Promise<void> {
  const logs = openLogSink(process.stdout.fd);
  const starting = startBinService(process.env, logs);
  stopOnSignals(async () => {
    // Close in order once the start is complete. A failed start reports itself and ends the process.
    const service = await starting.catch(() => new Promise<never>(() => undefined));
    await service.close().finally(() => logs.flush());
  });
  const service = await starting;
  await announce(greeting(service.settings), process.stdout, logs);
}

function greeting({ publicUrl: { href }, signIn }: BinServiceSettings) {
  const msg = `The BIN lookup service is ready at ${href}`;
  const advice = signIn ? `Try ${href}/45717360, and ${href}/account in a browser.` : adviceWithoutAccounts(href);
  return { msg, facts: { version: VERSION, accounts: signIn !== undefined, advice }, text: `${msg}\n${advice}\n` };
}

function adviceWithoutAccounts(href: string): string {
  return `Try ${href}/45717360.

Only the free tier is available. Accounts with plans and API keys need an OpenID provider: register the callback URL
${href}/account/callback there, and set
  SIGN_IN_ISSUER, SIGN_IN_CLIENT_ID, SIGN_IN_CLIENT_SECRET
  INTERNAL_HOSTS, if the provider is on this machine or in a private network
To try them without a provider, run npm run sandbox.`;
}

async function withAccounts(work: (accounts: Accounts) => Promise<void>): Promise<void> {
  const settings = readBinServiceSettings(process.env);
  const store = await openBinServiceStore(settings);
  const logger = createLogger({ level: settings.logLevel, destination: process.stderr });
  const { planConfirmed } = createEvents({ logger, metrics: createMetrics() });
  try {
    await work(createAccounts({ store, clock: Date.now, randomBytes, planConfirmed }));
  } finally {
    await store.close();
  }
}

function print(accounts: readonly Account[], json: true | undefined): void {
  const rows = accounts.map(({ id, name, email, requested }) => ({
    account: id,
    name: name ?? null,
    email: email ?? null,
    plan: requested?.name ?? null,
    order: requested?.order ?? null,
    requestedAt: isoTime(requested?.at ?? 0),
  }));
  const lines = rows.map(
    (row) => `${row.account}  ${row.plan}  ${row.order}  ${row.requestedAt}  ${row.email ?? row.name ?? ''}`,
  );
  say(json ? JSON.stringify(rows) : lines.join('\n') || 'No plan requests.');
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

function refuse(text: string): void {
  process.stderr.write(`${text}\n`);
  process.exitCode = 1;
}

function refusal(error: unknown): string {
  if (!(error instanceof StartRefused)) return failureText(error);
  const help = error.cause === undefined ? ['The settings are explained in docs/bin-lookup-service.env.example.'] : [];
  return ['The BIN lookup service cannot start:', ...error.faults.map((fault) => `- ${fault}`), ...help].join('\n');
}
