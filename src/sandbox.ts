/** The program behind `npm run sandbox`: runs until SIGINT or SIGTERM. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { KeyAccess } from './bin-lookup-service/accounts.ts';
import { ADMIN_TOTP_SECRET } from './sandbox/accounts.ts';
import { DEMO_CLIENT_ID, type SandboxClient } from './sandbox/clients.ts';
import { isLoopback } from './sandbox/listeners.ts';
import type { Sandbox, SandboxOptions } from './sandbox/sandbox.ts';
import { type ReadSeed, readSeed } from './sandbox/seed.ts';
import { createCommand, readSettings, type Settings } from './sandbox/settings.ts';
import { codeOf, failureText } from './shared/errors.ts';

const HELP = `Secrets are read only from the environment, because command lines are visible to other users:
  SANDBOX_CLIENT_SECRET         the client secret of the sandbox's own app (default: a new one at each start, printed)
  SANDBOX_INITIAL_ACCESS_TOKEN  lets apps register themselves at /register (default: a new one at each start, printed)
  SANDBOX_BIN_API_KEY           an API key of the BIN lookup service (default: a new one at each start, printed)

The sandbox's own app is registered as ${DEMO_CLIENT_ID} and may request every scope that discovery lists. The second factor of
admin@example.test has the secret ${ADMIN_TOTP_SECRET}; the identity provider's first page shows a
current code. See docs/sandbox.md for more, with a seed file and example calls.`;

/** The access of the key that is printed at the start. */
const BIN_ACCESS: KeyAccess = {
  accountId: 'sandbox',
  plan: { name: 'sandbox', monthlyRequests: 100_000 },
  allows: () => true,
};

async function main(): Promise<void> {
  const command = createCommand(HELP).parse();
  const { settings, faults } = readSettings(command.opts());
  if (settings === undefined) return fail('These settings are wrong:', faults);
  const read = settings.seed === undefined ? undefined : readSeedFile(settings.seed);
  if (read?.faults !== undefined) return fail(`The seed file ${settings.seed} is wrong:`, read.faults);
  const clientSecret = process.env.SANDBOX_CLIENT_SECRET || randomBytes(24).toString('base64url');
  const binApiKey = process.env.SANDBOX_BIN_API_KEY || randomBytes(24).toString('base64url');
  const initialAccessToken = process.env.SANDBOX_INITIAL_ACCESS_TOKEN || randomBytes(24).toString('base64url');
  // These modules are loaded here, so that help and faults are shown without delay.
  const [{ startSandbox }, { createBinService }, { createOwnBinService }, { testCards }] = await Promise.all([
    import('./sandbox/sandbox.ts'),
    import('./bin-lookup-service/service.ts'),
    import('./sandbox/own-bin-lookup-service.ts'),
    import('./shared/bin/test-cards.ts'),
  ]);
  const fixedAccess = (key: string) => (key === binApiKey ? BIN_ACCESS : undefined);
  const address = { host: settings.publicHost ?? settings.host, port: settings.port };
  // Only on loopback: elsewhere, its pages would need https, and it confirms plan requests without an operator.
  const binService = [settings.host, address.host].every(isLoopback) ? createOwnBinService(address) : undefined;
  const opening = startSandbox({
    ...optionsOf(settings),
    seed: read?.seed,
    initialAccessToken,
    clients: [demoClient(settings.callbackUrl, clientSecret), ...(binService ? [binService.client] : [])],
    binService:
      binService?.listener ?? createBinService({ accounts: { accessOf: fixedAccess }, testData: testCards() }),
    report: (error) => process.stderr.write(`The sandbox failed to handle a request: ${failureText(error)}\n`),
  });
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-sandbox-'));
  const close = async () => {
    await Promise.all([
      opening.then(
        (sandbox) => sandbox.close(),
        () => undefined,
      ),
      binService?.close(),
    ]);
    rmSync(directory, { recursive: true, force: true });
  };
  // Set before the start ends, because the first request may be served while the rest is still starting.
  stopOnSignal(close);
  try {
    const sandbox = await opening;
    await binService?.open(sandbox, { directory, logLevel: 'error', logDestination: process.stderr, fixedAccess });
    const hasAccounts = binService !== undefined;
    process.stdout.write(greeting(sandbox, { clientSecret, initialAccessToken, binApiKey, hasAccounts, settings }));
  } catch (error) {
    await close();
    throw error;
  }
}

function readSeedFile(path: string): ReadSeed {
  try {
    return readSeed(readFileSync(path, 'utf8'));
  } catch (error) {
    return { faults: [`It cannot be read: ${codeOf(error) ?? 'unknown failure'}`] };
  }
}

function optionsOf(settings: Settings): Omit<SandboxOptions, 'clients' | 'binService' | 'seed'> {
  const { seed: _file, callbackUrl: _url, refreshPolicy, graceSeconds, leanIdToken, overLimit, ...rest } = settings;
  const { userCallsPerMinute, userCallsPerHour, companyCallsPerMinute, ...options } = rest;
  return {
    ...options,
    refreshTokens: { policy: refreshPolicy, graceSeconds },
    claimsInIdToken: leanIdToken !== true,
    rateLimits: {
      response: overLimit,
      perUserPerMinute: userCallsPerMinute,
      perUserPerHour: userCallsPerHour,
      perCompanyPerMinute: companyCallsPerMinute,
    },
  };
}

function demoClient(callbackUrl: string, clientSecret: string): SandboxClient {
  return {
    clientId: DEMO_CLIENT_ID,
    clientSecret,
    name: 'Sandbox app',
    redirectUris: [callbackUrl],
    // Gatehouse's start page: its callback URLs end with `/oauth/callback/ID`.
    postLogoutRedirectUris: [new URL('../../', callbackUrl).href],
  };
}

interface GreetingFacts {
  clientSecret: string;
  initialAccessToken: string;
  binApiKey: string;
  /** Whether the BIN lookup service has accounts. */
  hasAccounts: boolean;
  settings: Settings;
}

function greeting(sandbox: Sandbox, facts: GreetingFacts): string {
  const { clientSecret, initialAccessToken, binApiKey, hasAccounts, settings } = facts;
  const { issuer, platformUrl, binServiceUrl, accounts } = sandbox;
  const logins = accounts.map(({ login, groups }) => `${login}${groups.length > 0 ? ` (${groups.join(', ')})` : ''}`);
  return `The sandbox is ready.

  Identity provider   ${issuer} (a code for the second factor, apps you allowed, admin console)
  Platform            ${platformUrl}/1/threads/current
  BIN lookup service  ${binServiceUrl}/45717360, without an API key or with ${binApiKey}
                      ${hasAccounts ? `${binServiceUrl}/account (plans and API keys)` : 'without accounts, which need the sandbox on loopback'}

  App                 client ID ${DEMO_CLIENT_ID}, client secret ${clientSecret}
  Callback URL        ${settings.callbackUrl}
  Registration        POST ${issuer}/register with the initial access token ${initialAccessToken}
  Accounts            ${logins.join(', ')}
  Password of each    ${accounts[0]?.password ?? 'their own'}
${settings.beyondLoopback ? '\nIt listens beyond loopback: every client that reaches it can do everything in it.\n' : ''}
Stop it with Ctrl+C.
`;
}

function stopOnSignal(close: () => Promise<void>): void {
  // Exit explicitly, because keep-alive connections would delay it for seconds.
  const stop = () => void close().then(() => process.exit(0));
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  // A closed output must not end the process.
  for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);
}

function fail(heading: string, faults: string[]): void {
  process.stderr.write(`${heading}\n${faults.map((fault) => `- ${fault}`).join('\n')}\n`);
  process.exitCode = 1;
}

main().catch((error: unknown) => {
  process.stderr.write(`${failureText(error)}\n`);
  process.exitCode = 1;
});
