/** A provider and platform for many users. A refresh token is valid once, and a thread names its owner. */
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
  /** `expires_in` of token responses; the platform accepts access tokens without a limit. Default 3600. */
  lifetimeSeconds: number;
  /** The delay of a token response, after the old refresh token is spent. */
  delayMilliseconds: () => number;
  /** Number of successful calls of the token endpoint. */
  refreshes(): number;
  /** Number of refused refresh tokens, which were spent or never issued. */
  refusals(): number;
  revocations: readonly string[];
  /** Every issued token. */
  issued: ReadonlySet<string>;
  issue(userId: string): CrowdTokens;
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

  const issue = (userId: string): CrowdTokens => {
    const tokens = { accessToken: newToken('at'), refreshToken: newToken('rt') };
    for (const token of Object.values(tokens)) {
      owners.set(token, userId);
      issued.add(token);
    }
    latest.set(userId, tokens);
    return tokens;
  };

  const refresh = async (body: URLSearchParams, res: ServerResponse): Promise<void> => {
    const refreshToken = body.get('refresh_token') ?? '';
    const owner = owners.get(refreshToken);
    if (owner === undefined || latest.get(owner)?.refreshToken !== refreshToken) {
      refusals += 1;
      return respond(res, 400, { error: 'invalid_grant' });
    }
    refreshes += 1;
    const { accessToken, refreshToken: next } = issue(owner);
    const delay = provider.delayMilliseconds();
    if (delay > 0) await sleep(delay);
    respond(res, 200, {
      access_token: accessToken,
      refresh_token: next,
      token_type: 'Bearer',
      expires_in: provider.lifetimeSeconds,
    });
  };

  const server = createServer(async (req, res) => {
    const body = new URLSearchParams(await textOf(req));
    if (req.url === '/token') return refresh(body, res);
    if (req.url === '/revoke') {
      revocations.push(body.get('token') ?? '');
      return respond(res, 200, {});
    }
    const owner = owners.get(req.headers.authorization?.replace('Bearer ', '') ?? '');
    return owner === undefined ? respond(res, 401, {}) : respond(res, 200, { owner });
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
    issue,
    latestOf: (userId) => latest.get(userId),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return provider;
}

function newToken(kind: string): string {
  return `${kind}-${randomBytes(24).toString('base64url')}`;
}

function respond(res: ServerResponse, status: number, body: unknown): void {
  if (res.destroyed) return;
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function textOf(req: IncomingMessage): Promise<string> {
  const chunks = await Array.fromAsync(req as AsyncIterable<Buffer>);
  return Buffer.concat(chunks).toString();
}
