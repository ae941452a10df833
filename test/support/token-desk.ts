/** A view into the provider's token endpoint: what it gave to whom, who used that, for how long it says so, and when its answers leave. */
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

/** A refresh token that somebody came with, whatever the provider made of it. */
export interface Use {
  /** Undefined where the provider never gave it. */
  userId: string | undefined;
  refreshToken: string;
  /** Whoever came with it before is gone: without an answer, or so soon after it that they may have made nothing of it. */
  afterCut: boolean;
}

export interface HeldAnswer {
  /** Resolves once the provider has done its work: the old refresh token is spent, and the answer has not left. */
  made: Promise<void>;
  /** Lets it go. */
  release(): void;
}

export interface TokenDesk {
  /** What answers say about the lifetime of access tokens; the provider itself takes them for an hour. Default 3600. */
  lifetimeSeconds: number;
  /** How long an answer with tokens is kept back, once it is made. */
  delayMilliseconds: () => number;
  /** Everything that was given out, oldest first. */
  issued: readonly Issued[];
  /** Every use of a refresh token, oldest first. */
  uses: readonly Use[];
  usesBy(userId: string): number;
  /** Refresh tokens that were refused since the start. */
  refusals(): number;
  calls(): number;
  /** Resolves once no call is being worked on and no answer is kept back. */
  quiet(): Promise<void>;
  /** Keeps the next answer back. */
  holdNext(): HeldAnswer;
  latestOf(userId: string): Issued | undefined;
  /** Looks no more. */
  close(): void;
}

/** Less than a process that lives keeps its connection open after an answer. */
const SOON_MILLISECONDS = 1_000;

export function createTokenDesk(sandbox: Sandbox): TokenDesk {
  const issued: Issued[] = [];
  const uses: Use[] = [];
  const holds: { made: () => void; released: Promise<void> }[] = [];
  let refusals = 0;
  let begun = 0;
  let done = 0;
  const desk: TokenDesk = {
    lifetimeSeconds: 3_600,
    delayMilliseconds: () => 0,
    issued,
    uses,
    usesBy: (userId) => uses.filter((use) => use.userId === userId).length,
    refusals: () => refusals,
    calls: () => sandbox.hits.count('POST /token'),
    async quiet() {
      while (begun > done) await sleep(10);
    },
    holdNext() {
      const made = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      holds.push({ made: made.resolve, released: released.promise });
      return { made: made.promise, release: released.resolve };
    },
    latestOf: (userId) => issued.findLast((one) => one.userId === userId),
    close: watchUses(sandbox, (refreshToken, afterCut) => {
      const { userId } = issued.findLast((one) => one.refreshToken === refreshToken) ?? {};
      uses.push({ userId, refreshToken, afterCut });
    }),
  };
  sandbox.faults.set({
    on: 'identity-provider',
    path: '/token',
    kind: 'rewrite',
    async change(body) {
      begun += 1;
      if (typeof body.access_token === 'string') issued.push(issuedBy(sandbox, body as Record<string, string>));
      else refusals += 1;
      const delay = typeof body.access_token === 'string' ? desk.delayMilliseconds() : 0;
      const hold = holds.shift();
      hold?.made();
      await hold?.released;
      await sleep(delay);
      done += 1;
      return 'expires_in' in body ? { ...body, expires_in: desk.lifetimeSeconds } : body;
    },
  });
  return desk;
}

/** @param onUse hears of each as it comes, before the provider does. Answers what ends it. */
function watchUses(sandbox: Sandbox, onUse: (refreshToken: string, afterCut: boolean) => void): () => void {
  const port = Number(new URL(sandbox.issuer).port);
  const cut = new Set<string>();
  const watch = (message: unknown) => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    const { socket } = request;
    if (socket.localPort !== port || request.url !== '/token') return;
    let body = '';
    // Seen on its way in: whoever listened to the request would take the body from the provider.
    const push = request.push;
    request.push = (chunk, ...rest) => {
      if (chunk === null) come(new URLSearchParams(body).get('refresh_token'));
      else body += chunk;
      return push.call(request, chunk, ...rest);
    };
    const come = (refreshToken: string | null) => {
      if (refreshToken === null) return;
      onUse(refreshToken, cut.delete(refreshToken));
      const gone = () => void cut.add(refreshToken);
      socket.once('close', gone);
      response.once('close', () => setTimeout(() => socket.off('close', gone), SOON_MILLISECONDS).unref());
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
