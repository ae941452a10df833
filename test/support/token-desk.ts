/** A view into the provider's token endpoint: what it gave to whom, for how long it says so, and when its answers leave. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { userIdOf } from '../../src/sign-in/identity.ts';

export interface Issued {
  userId: string;
  accessToken: string;
  refreshToken: string;
  idToken: string;
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
  /** Refresh tokens that were refused since the start. */
  refusals(): number;
  calls(): number;
  /** Resolves once no call is being worked on and no answer is kept back. */
  quiet(): Promise<void>;
  /** Keeps the next answer back. */
  holdNext(): HeldAnswer;
  latestOf(userId: string): Issued | undefined;
}

export function createTokenDesk(sandbox: Sandbox): TokenDesk {
  const issued: Issued[] = [];
  const holds: { made: () => void; released: Promise<void> }[] = [];
  let refusals = 0;
  let begun = 0;
  let done = 0;
  const desk: TokenDesk = {
    lifetimeSeconds: 3_600,
    delayMilliseconds: () => 0,
    issued,
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

function issuedBy(sandbox: Sandbox, body: Record<string, string>): Issued {
  const { access_token: accessToken = '', refresh_token: refreshToken = '', id_token: idToken = '' } = body;
  const { sub } = JSON.parse(Buffer.from(idToken.split('.')[1] ?? '', 'base64url').toString()) as { sub: string };
  return { userId: userIdOf(sandbox.issuer, sub), accessToken, refreshToken, idToken };
}
