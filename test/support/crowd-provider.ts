/** A provider and platform for many people: each refresh token is good for one use, and a thread says whose it is. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface CrowdTokens {
  accessToken: string;
  refreshToken: string;
}

export interface CrowdProvider {
  url: string;
  /** What answers say about the lifetime of access tokens; the platform itself takes them for ever. Default 3600. */
  lifetimeSeconds: number;
  /** How long an answer with tokens is kept back, once it is made and the old token spent. */
  delayMilliseconds: () => number;
  /** Calls of the token endpoint that brought tokens. */
  refreshes(): number;
  /** Refresh tokens that were refused: spent, or never given. */
  refusals(): number;
  revocations: readonly string[];
  /** Every token that was given. */
  issued: ReadonlySet<string>;
  give(userId: string): CrowdTokens;
  latestOf(userId: string): CrowdTokens | undefined;
  close(): Promise<void>;
}

export async function startCrowdProvider(): Promise<CrowdProvider> {
  const latest = new Map<string, CrowdTokens>();
  const owners = new Map<string, string>();
  const issued = new Set<string>();
  const revocations: string[] = [];
  let refreshes = 0;
  let refusals = 0;

  const give = (userId: string): CrowdTokens => {
    const tokens = { accessToken: token('at'), refreshToken: token('rt') };
    for (const one of Object.values(tokens)) {
      owners.set(one, userId);
      issued.add(one);
    }
    latest.set(userId, tokens);
    return tokens;
  };

  const refresh = async (body: URLSearchParams, res: ServerResponse): Promise<void> => {
    const refreshToken = body.get('refresh_token') ?? '';
    const owner = owners.get(refreshToken);
    if (owner === undefined || latest.get(owner)?.refreshToken !== refreshToken) {
      refusals += 1;
      return answer(res, 400, { error: 'invalid_grant' });
    }
    refreshes += 1;
    const { accessToken, refreshToken: next } = give(owner);
    const delay = provider.delayMilliseconds();
    if (delay > 0) await sleep(delay);
    answer(res, 200, {
      ...{ access_token: accessToken, refresh_token: next, token_type: 'Bearer' },
      expires_in: provider.lifetimeSeconds,
    });
  };

  const server = createServer(async (req, res) => {
    const body = new URLSearchParams(await textOf(req));
    if (req.url === '/token') return refresh(body, res);
    if (req.url === '/revoke') {
      revocations.push(body.get('token') ?? '');
      return answer(res, 200, {});
    }
    const owner = owners.get(req.headers.authorization?.replace('Bearer ', '') ?? '');
    return owner === undefined ? answer(res, 401, {}) : answer(res, 200, { owner });
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  const provider: CrowdProvider = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    lifetimeSeconds: 3_600,
    delayMilliseconds: () => 0,
    refreshes: () => refreshes,
    refusals: () => refusals,
    revocations,
    issued,
    give,
    latestOf: (userId) => latest.get(userId),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return provider;
}

function token(kind: string): string {
  return `${kind}-${randomBytes(24).toString('base64url')}`;
}

function answer(res: ServerResponse, status: number, body: unknown): void {
  if (res.destroyed) return;
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function textOf(req: IncomingMessage): Promise<string> {
  const chunks = await Array.fromAsync(req as AsyncIterable<Buffer>);
  return Buffer.concat(chunks).toString();
}
