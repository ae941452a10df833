/** Owns `npm run sandbox`: the sandbox alone, until SIGINT or SIGTERM. */
import { randomBytes } from 'node:crypto';
import { createBinService } from '../bin-service/service.ts';
import type { SandboxClient } from './clients.ts';
import { type Sandbox, startSandbox } from './sandbox.ts';

const DEFAULT_PORT = 3001;
const CLIENT_ID = 'sandbox-demo-app';
const CALLBACK_URL = 'http://127.0.0.1:3000/oauth/callback/platform';

const HELP = `npm run sandbox

Starts an identity provider, the platform and the BIN lookup service on three ports of 127.0.0.1, with one registered
app and three accounts. Everything is in memory and gone when it stops.

  SANDBOX_PORT           first of the three ports (default ${DEFAULT_PORT})
  SANDBOX_CLIENT_SECRET  the app's client secret (default: another one at each start, printed)

The app is registered as ${CLIENT_ID} with the callback URL
${CALLBACK_URL}
and may ask for every scope that discovery lists.
`;

async function main(): Promise<void> {
  if (process.argv.includes('--help') || process.argv.includes('-h')) {
    process.stdout.write(HELP);
    return;
  }
  const clientSecret = process.env.SANDBOX_CLIENT_SECRET || randomBytes(24).toString('base64url');
  const sandbox = await startSandbox({
    port: readPort(process.env.SANDBOX_PORT),
    clients: [demoClient(clientSecret)],
    binService: createBinService(),
    report: (error) => process.stderr.write(`The sandbox failed at a request: ${String(error)}\n`),
  });
  stopOnSignal(sandbox);
  process.stdout.write(greeting(sandbox, clientSecret));
}

function demoClient(clientSecret: string): SandboxClient {
  return {
    clientId: CLIENT_ID,
    clientSecret,
    name: 'Demo app',
    redirectUris: [CALLBACK_URL],
    postLogoutRedirectUris: ['http://127.0.0.1:3000/'],
  };
}

function readPort(text: string | undefined): number {
  const port = text ? Number(text) : DEFAULT_PORT;
  if (Number.isInteger(port) && port >= 1 && port <= 65_533) return port;
  throw new Error('SANDBOX_PORT must be a whole number from 1 to 65533: the two ports after it are used too.');
}

function greeting({ issuer, platformUrl, binServiceUrl, accounts }: Sandbox, clientSecret: string): string {
  const people = accounts.map(({ login, groups }) => `${login}${groups.length > 0 ? ` (${groups.join(', ')})` : ''}`);
  return `The sandbox is ready.

  Identity provider   ${issuer}
  Platform            ${platformUrl}/1/threads/current
  BIN lookup service  ${binServiceUrl}/45717360

  App                 client ID ${CLIENT_ID}, client secret ${clientSecret}
  Callback URL        ${CALLBACK_URL}
  Accounts            ${people.join(', ')}
  Password of each    ${accounts[0]?.password}

Stop it with Ctrl+C.
`;
}

function stopOnSignal(sandbox: Sandbox): void {
  // Exit as soon as all is closed: outgoing keep-alive connections would hold the process for seconds.
  const stop = () => void sandbox.close().then(() => process.exit(0));
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
