/** The peers from Debian: Apache with mod_auth_openidc, with sessions in shared memory or Redis. */
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CLIENT_SECRET } from '../support/gatehouse.ts';
import { startProgram } from '../support/program.ts';
import { IN_MEMORY, startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';
import type { Peer } from './peers.ts';
import { measured } from './process.ts';
import { type Address, CLIENT_ID, SCOPES } from './site.ts';

const APACHE = '/usr/sbin/apache2';
const MODULES = '/usr/lib/apache2/modules';
const LOADED = [
  'mpm_event',
  'alias',
  'headers',
  'authn_core',
  'authz_core',
  'authz_user',
  'proxy',
  'proxy_http',
  'auth_openidc',
];
export const INSTALL_APACHE = 'apt install --no-install-recommends apache2-bin libapache2-mod-auth-openidc';

export const apacheIsInstalled = (): boolean =>
  existsSync(APACHE) && LOADED.every((name) => existsSync(join(MODULES, `mod_${name}.so`)));

export const APACHE_PEERS = ['Apache + mod_auth_openidc, shared memory', 'Apache + mod_auth_openidc, Redis'] as const;
export type ApachePeer = (typeof APACHE_PEERS)[number];

/** One process with threads for all connections of the benchmark, which shares its memory and connections. */
export async function startApache(
  name: ApachePeer,
  parts: { address: Address; issuer: string; platformUrl: string },
): Promise<Peer> {
  const { url, port } = parts.address;
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-apache-'));
  const redis = name.endsWith('Redis') ? await startRedis(IN_MEMORY) : undefined;
  const session = join(directory, 'session.json');
  writeFileSync(session, '{"signedIn":true}');
  // An Apache that root starts reads it as another user.
  chmodSync(directory, 0o755);
  const cache = redis
    ? ['OIDCCacheType redis', `OIDCRedisCacheServer ${new URL(redis.url).host}`]
    : ['OIDCCacheType shm', 'OIDCCacheShmMax 2000'];
  const protect = (path: string, ...lines: string[]) =>
    [
      `<Location ${path}>`,
      'AuthType openid-connect',
      'Require valid-user',
      'OIDCUnAuthAction auth true',
      ...lines,
      '</Location>',
    ].join('\n');
  const settings = [
    ...LOADED.map((module) => `LoadModule ${module}_module ${MODULES}/mod_${module}.so`),
    `ServerRoot ${directory}`,
    `PidFile ${directory}/pid`,
    `ErrorLog ${directory}/error.log`,
    ...(process.getuid?.() === 0 ? ['User nobody', 'Group nogroup'] : []),
    `Listen 127.0.0.1:${port}`,
    `ServerName ${url}`,
    'KeepAlive On',
    'MaxKeepAliveRequests 0',
    'KeepAliveTimeout 60',
    'ServerLimit 1',
    'StartServers 1',
    'ThreadLimit 300',
    'ThreadsPerChild 300',
    'MaxRequestWorkers 300',
    'MinSpareThreads 1',
    'MaxSpareThreads 300',
    'MaxConnectionsPerChild 0',
    `OIDCProviderMetadataURL ${parts.issuer}/.well-known/openid-configuration`,
    `OIDCClientID ${CLIENT_ID}`,
    `OIDCClientSecret ${CLIENT_SECRET}`,
    `OIDCRedirectURI ${url}/callback`,
    `OIDCCryptoPassphrase ${randomBytes(32).toString('hex')}`,
    `OIDCScope "${SCOPES.join(' ')}"`,
    'OIDCAuthRequestParams prompt=consent',
    'OIDCPKCEMethod S256',
    ...cache,
    `Alias /session ${session}`,
    protect('/session'),
    protect('/callback'),
    protect(
      '/threads/current',
      `ProxyPass ${parts.platformUrl}/1/threads/current enablereuse=on max=64`,
      'RequestHeader set Authorization "Bearer %{OIDC_access_token}e"',
      'RequestHeader unset Cookie',
    ),
  ];
  const file = join(directory, 'apache2.conf');
  writeFileSync(file, `${settings.join('\n')}\n`, { mode: 0o600 });
  const program = startProgram([APACHE, '-f', file, '-DFOREGROUND'], {});
  const readyMilliseconds = await until(async () => (await fetch(url).catch(() => undefined)) !== undefined);
  const apache = measured(program, { name, readyMilliseconds, withChildren: true });
  const stop = async () => {
    await apache.stop();
    await redis?.dispose();
    rmSync(directory, { recursive: true, force: true });
  };
  return { name, url, process: apache, redis, stop };
}
