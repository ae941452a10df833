/** The settings and addresses of the stored data, which stay the same for as long as it is kept. */
import { hash } from 'node:crypto';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { CLIENT_SECRET, sandboxApp } from '../support/gatehouse.ts';
import { freePort } from '../support/ports.ts';

/** Records name these addresses, so the ports are fixed. */
const SANDBOX_PORT = 24_310;
export const PORT = 24_315;
export const RECEIVER_PORT = 24_316;
const BIN_SERVICE_PORT = 24_317;
export const URL_OF = {
  gatehouse: `http://127.0.0.1:${PORT}`,
  issuer: `http://127.0.0.1:${SANDBOX_PORT}`,
  platform: `http://127.0.0.1:${SANDBOX_PORT + 1}`,
  binService: `http://127.0.0.1:${SANDBOX_PORT + 2}`,
  receiver: `http://127.0.0.1:${RECEIVER_PORT}/hook`,
  binAccounts: `http://127.0.0.1:${BIN_SERVICE_PORT}`,
} as const;
export const PROVIDER_PORTS = { issuer: SANDBOX_PORT, platform: SANDBOX_PORT + 1, binService: SANDBOX_PORT + 2 };

/** Keys of tests: they open nothing but the data in this folder. */
const keyOf = (kid: string) => `${kid}:${hash('sha256', `released store ${kid}`, 'base64url')}`;
const [FIRST, SECOND, THIRD] = ['test-1', 'test-2', 'test-3'].map(keyOf) as [string, string, string];
/** Before, after a finished rotation, during the next one, and after it. */
export const KEY_LISTS = {
  first: FIRST,
  rotated: `${SECOND},${FIRST}`,
  rotating: `${THIRD},${SECOND}`,
  last: THIRD,
} as const;

/** `third` has its connections removed, and `second` is registered in the storage. */
export const APP_IDS = ['platform', 'second', 'third'] as const;

export const appOf = (id: (typeof APP_IDS)[number]): Record<string, unknown> => {
  const sandbox = { issuer: URL_OF.issuer, platformUrl: URL_OF.platform } as Sandbox;
  return {
    ...sandboxApp({ url: URL_OF.gatehouse, sandbox }, 'platform'),
    ...{ id, name: `App ${id}`, clientId: `test-${id}`, callbackUrls: [`${URL_OF.gatehouse}/oauth/callback/${id}`] },
    ...(id === 'platform' && { rateLimit: { perAppPerMinute: 6000, perUserPerMinute: 600 } }),
  };
};

export const SETTINGS: Record<string, string> = {
  PUBLIC_URL: URL_OF.gatehouse,
  PORT: String(PORT),
  SESSION_SECRETS: 'a-session-secret-of-the-kept-store-0123456789',
  BIN_SERVICE_URL: URL_OF.binService,
  ADMIN_APP: 'platform',
  ADMIN_VALUES: 'gatehouse-admins',
  INTERNAL_HOSTS: '127.0.0.1',
  RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: '0',
  RATE_LIMIT_PER_SESSION_PER_MINUTE: '100',
};

/** The settings of the BIN lookup service. */
export const binSettings = async () => ({
  PORT: String(BIN_SERVICE_PORT),
  MANAGEMENT_PORT: String(await freePort()),
  ...{ SIGN_IN_ISSUER: URL_OF.issuer, SIGN_IN_NAME: 'Sandbox', SIGN_IN_CLIENT_ID: 'bin-lookup-service' },
  ...{ SIGN_IN_CLIENT_SECRET: CLIENT_SECRET, INTERNAL_HOSTS: '127.0.0.1', PLANS: 'small:50' },
  ...{ BAN_REFUSALS: '2', FREE_MONTHLY_REQUESTS: '3' },
});
