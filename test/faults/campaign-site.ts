/** The deployment of a campaign: real processes behind a balancer on one store, and the servers that they call. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { userIdOf } from '../../src/gatehouse/users/user-id.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { type Measured, startProcess } from '../bench/process.ts';
import { createAdministrator } from '../gatehouse/relay/service.ts';
import { startBalancer } from '../support/balancer.ts';
import { createMember, type Member, openSharedStorage, type SharedStorage, type StoreKind } from '../support/fleet.ts';
import { CLIENT_SECRET } from '../support/gatehouse.ts';
import { freePort } from '../support/ports.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { type ScriptedBinService, sendJson, startScriptedBinService } from '../support/scripted-bin-lookup-service.ts';
import { type CampaignProvider, startCampaignProvider } from './campaign-provider.ts';
import type { Chance } from './chance.ts';

export interface CampaignSite {
  /** The URL of the balancer. */
  url: string;
  provider: CampaignProvider;
  /** The URL of a bare Node proxy for the same platform, which no fault affects. */
  bareUrl: string;
  binService: ScriptedBinService;
  /** The first process runs for the whole campaign. */
  members: readonly Member[];
  storage: SharedStorage;
  redis: RedisServer | undefined;
  dataDirectory: string;
  userIdOf(name: string): string;
  /** May act for any user. */
  relayToken: string;
  /** Revoked before the campaign. */
  revokedToken: string;
  /** Ends a process with this signal, and starts it again. */
  restart(member: Member, by: 'SIGKILL' | 'SIGTERM'): Promise<void>;
  /** Processes that ended unexpectedly. */
  unexpectedEnds: readonly string[];
  /** The output of all processes so far. */
  output(): string;
  close(): Promise<void>;
}

const CLIENT_ID = 'campaign';
/** Time for forwarded connections to be accepted. */
const HANDOVER_MILLISECONDS = 500;
export const isAdministrator = (name: string): boolean => name.startsWith('administrator');

export async function startCampaignSite(options: {
  kind: StoreKind;
  processes: number;
  chance: Chance;
}): Promise<CampaignSite> {
  const { kind, processes, chance } = options;
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-campaign-'));
  const balancer = await startBalancer(port, chance.below);
  const redis = kind === 'Redis' ? await startRedis() : undefined;
  const provider = await startCampaignProvider({
    clientId: CLIENT_ID,
    lifetimeSeconds: () => 1 + chance.below(4),
    // A killed process is then likely to be waiting for tokens.
    usualDelayMilliseconds: () => chance.between(0, 200),
    isAdmin: isAdministrator,
  });
  const binService = await startScriptedBinService();
  binService.respondWith((res, { url: path }) => sendJson(res, recordOf(path.slice(1))));
  const appsFile = join(directory, 'connected-apps.json');
  writeFileSync(appsFile, JSON.stringify([appOf(url, provider.url)]));
  const env: Record<string, string> = {
    PUBLIC_URL: url,
    DATA_DIR: join(directory, 'data'),
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    CONNECTED_APPS_FILE: appsFile,
    ADMIN_VALUES: 'gatehouse-admins',
    INTERNAL_HOSTS: '127.0.0.1',
    TEST_CLIENT_SECRET: CLIENT_SECRET,
    BIN_SERVICE_URL: binService.url,
    BIN_SERVICE_MONTHLY_QUOTA: '100000000',
    // Warnings must include a stack.
    NODE_OPTIONS: '--trace-warnings',
    // All users have one address here.
    RATE_LIMIT_PER_ADDRESS_PER_MINUTE: '0',
    RATE_LIMIT_PER_SESSION_PER_MINUTE: '0',
    RATE_LIMIT_PER_RELAY_TOKEN_PER_MINUTE: '0',
    RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: '0',
    // Often enough for a short run.
    CONNECTION_CHECK_SECONDS: '8',
    ...(redis ? { REDIS_URL: redis.url } : {}),
  };
  const printed: (() => string)[] = [];
  const members: Member[] = [];
  for (let count = 0; count < processes; count += 1) {
    const ports = { PORT: String(await freePort()), MANAGEMENT_PORT: String(await freePort()) };
    members.push(createMember({ ...env, ...ports }, printed));
  }

  const unexpectedEnds: string[] = [];
  const expectedEnds = new Set<number>();
  const balance = (active: readonly Member[]) => balancer.setPorts(active.map((member) => Number(member.env.PORT)));
  const start = async (member: Member) => {
    await member.start();
    const { pid, ended } = member.program;
    void ended.then(({ status, signal }) => {
      if (!expectedEnds.has(pid)) unexpectedEnds.push(`process ${members.indexOf(member)}: ${signal ?? status}`);
    });
  };
  let storage: SharedStorage | undefined;
  let bare: Measured | undefined;
  const close = async () => {
    for (const member of members) if (member.isRunning()) expectedEnds.add(member.program.pid);
    await Promise.all(members.map((member) => member.kill()));
    await storage?.store.close();
    await Promise.all([bare?.stop(), balancer.close(), provider.close(), binService.close(), redis?.dispose()]);
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    await Promise.all(members.map(start));
    balance(members);
    bare = await startProcess('test/bench/bare-proxy.ts', { env: { UPSTREAM_URL: provider.url } });
    storage = await openSharedStorage(env);
    const administrator = await createAdministrator({ url }, storage);
    const { token: relayToken } = await administrator.createRelayToken({ assertUser: true });
    const { id, token: revokedToken } = await administrator.createRelayToken({ assertUser: true });
    if ((await administrator.call('DELETE', `/relay-tokens/${id}`)).status >= 300) throw new Error('Not revoked.');
    return {
      url,
      provider,
      binService,
      members,
      storage,
      redis,
      relayToken,
      revokedToken,
      unexpectedEnds,
      close,
      dataDirectory: env.DATA_DIR ?? '',
      bareUrl: `http://127.0.0.1:${bare.firstLine}`,
      userIdOf: (name) => userIdOf(provider.url, name),
      async restart(member, by) {
        // A balancer sends no new connections to a process before SIGTERM, but does not know of a crash in advance.
        if (by === 'SIGTERM') {
          balance(members.filter((other) => other !== member));
          await sleep(HANDOVER_MILLISECONDS);
        }
        expectedEnds.add(member.program.pid);
        member.signal(by);
        const { status } = await member.program.ended;
        if (by === 'SIGTERM' && status !== 0) unexpectedEnds.push(`a process ended with ${status} after SIGTERM`);
        await start(member);
        balance(members);
      },
      output: () => printed.map((text) => text()).join('\n'),
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The bank in records of the BIN lookup service. No other source has it. */
export const bankOf = (bin: string): string => `Bank of ${bin}`;
export const recordOf = (bin: string) => ({ scheme: 'visa', bank: { name: bankOf(bin) } });

function appOf(url: string, providerUrl: string): Record<string, unknown> {
  return {
    id: 'platform',
    name: 'Campaign',
    issuer: providerUrl,
    clientId: CLIENT_ID,
    clientSecret: { env: 'TEST_CLIENT_SECRET' },
    scopes: ['openid', 'profile'],
    callbackUrls: [`${url}/oauth/callback/platform`],
    apiBaseUrl: providerUrl,
    signIn: { allow: 'everyone' },
  };
}
