/** Watches and controls the provider's token endpoint: issued tokens, their uses and lifetimes, and delays. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { userIdOf } from '../../src/gatehouse/users/user-id.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';

export interface Issued {
  userId: string;
  accessToken: string;
  refreshToken: string;
  idToken: string;
}

/** A refresh token that was sent, whether the provider accepted it or not. */
export interface Use {
  /** Undefined if the provider did not issue it. */
  userId: string | undefined;
  refreshToken: string;
  /** Whether the previous sender closed its connection before the response or so soon after that it may be lost. */
  afterDisconnect: boolean;
}

export interface HeldResponse {
  /** Resolves when the response is prepared: the old refresh token is spent, and the new one is not sent yet. */
  prepared: Promise<void>;
  /** Sends the response. */
  release(): void;
}

export interface TokenEndpoint {
  /** `expires_in` of token responses; the provider accepts access tokens for an hour. Default 3600. */
  lifetimeSeconds: number;
  /** The delay of a token response. */
  delayMilliseconds: () => number;
  /** All issued tokens, oldest first. */
  issued: readonly Issued[];
  /** Every use of a refresh token, oldest first. */
  uses: readonly Use[];
  countUsesBy(userId: string): number;
  /** Number of refused refresh tokens. */
  refusalCount(): number;
  callCount(): number;
  /** Resolves when no call is in progress and no response is held. */
  untilIdle(): Promise<void>;
  /** Holds the next response. */
  holdNext(): HeldResponse;
  latestOf(userId: string): Issued | undefined;
  /** Stops watching. */
  close(): void;
}

/** A running process keeps its connection open for longer than this after a response. */
const SOON_MILLISECONDS = 1_000;

export function watchTokenEndpoint(sandbox: Sandbox): TokenEndpoint {
  const issued: Issued[] = [];
  const uses: Use[] = [];
  const holds: { made: () => void; released: Promise<void> }[] = [];
  let refusals = 0;
  let startedCalls = 0;
  let finishedCalls = 0;
  const endpoint: TokenEndpoint = {
    lifetimeSeconds: 3_600,
    delayMilliseconds: () => 0,
    issued,
    uses,
    countUsesBy: (userId) => uses.filter((use) => use.userId === userId).length,
    refusalCount: () => refusals,
    callCount: () => sandbox.requests.count('POST /token'),
    async untilIdle() {
      while (startedCalls > finishedCalls) await sleep(10);
    },
    holdNext() {
      const made = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      holds.push({ made: made.resolve, released: released.promise });
      return { prepared: made.promise, release: released.resolve };
    },
    latestOf: (userId) => issued.findLast((tokens) => tokens.userId === userId),
    close: watchUses(sandbox, (refreshToken, afterCut) => {
      const { userId } = issued.findLast((tokens) => tokens.refreshToken === refreshToken) ?? {};
      uses.push({ userId, refreshToken, afterDisconnect: afterCut });
    }),
  };
  sandbox.faults.set({
    listener: 'identity-provider',
    path: '/token',
    kind: 'rewrite',
    async change(body) {
      startedCalls += 1;
      if (typeof body.access_token === 'string') issued.push(issuedBy(sandbox, body as Record<string, string>));
      else refusals += 1;
      const delay = typeof body.access_token === 'string' ? endpoint.delayMilliseconds() : 0;
      const hold = holds.shift();
      hold?.made();
      await hold?.released;
      await sleep(delay);
      finishedCalls += 1;
      return 'expires_in' in body ? { ...body, expires_in: endpoint.lifetimeSeconds } : body;
    },
  });
  return endpoint;
}

/** @param onUse called for each refresh token before the provider handles it @returns stops this */
function watchUses(sandbox: Sandbox, onUse: (refreshToken: string, afterCut: boolean) => void): () => void {
  const port = Number(new URL(sandbox.issuer).port);
  const cut = new Set<string>();
  const watch = (message: unknown) => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    const { socket } = request;
    if (socket.localPort !== port || request.url !== '/token') return;
    let body = '';
    // Intercept `push`, because a listener on the request would consume the body.
    const push = request.push;
    request.push = (chunk, ...rest) => {
      if (chunk === null) recordUse(new URLSearchParams(body).get('refresh_token'));
      else body += chunk;
      return push.call(request, chunk, ...rest);
    };
    const recordUse = (refreshToken: string | null) => {
      if (refreshToken === null) return;
      onUse(refreshToken, cut.delete(refreshToken));
      const markCut = () => void cut.add(refreshToken);
      socket.once('close', markCut);
      response.once('close', () => setTimeout(() => socket.off('close', markCut), SOON_MILLISECONDS).unref());
    };
  };
  subscribe('http.server.request.start', watch);
  return () => void unsubscribe('http.server.request.start', watch);
}

function issuedBy(sandbox: Sandbox, body: Record<string, string>): Issued {
  const { access_token: accessToken = '', refresh_token: refreshToken = '', id_token: idToken = '' } = body;
  const { sub } = JSON.parse(Buffer.from(idToken.split('.')[1] ?? '', 'base64url').toString()) as { sub: string };
  return { userId: userIdOf(sandbox.issuer, sub), accessToken, refreshToken, idToken };
}
