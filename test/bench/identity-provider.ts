/** The sandbox as identity provider of the benchmarks, with one app and many users. Prints its issuer. */
import { createBinService } from '../../src/bin-lookup-service/service.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { readSeed } from '../../src/sandbox/seed.ts';

const { CLIENT_ID = '', CLIENT_SECRET = '', CALLBACK_URLS = '', USERS_OF_PROVIDER = '0' } = process.env;
const users = Array.from({ length: Number(USERS_OF_PROVIDER) }, (_, n) => ({
  login: `user-${n}@example.test`,
  name: `GeneratedUser ${n}`,
}));
const { seed, faults } = readSeed(JSON.stringify({ users }));
if (!seed) throw new Error(faults.join(' '));
const sandbox = await startSandbox({
  seed,
  clients: [{ clientId: CLIENT_ID, clientSecret: CLIENT_SECRET, redirectUris: CALLBACK_URLS.split(' ') }],
  // These parts measure relaying and sign-in. Another part measures refreshes.
  accessTokenSeconds: 3600,
  binService: createBinService(),
});
process.stdout.write(`${sandbox.issuer}\n`);
