/** Puts many users into the store, with sessions and grants that the code of Gatehouse writes. */

import { randomBytes } from 'node:crypto';
import { sign } from 'cookie-signature';
import { Cookie, type SessionData } from 'express-session';
import { registrationOf } from '../../src/gatehouse/connected-apps/registration.ts';
import { newConnectionId } from '../../src/gatehouse/grants/connection-ids.ts';
import type { Grant } from '../../src/gatehouse/grants/grant.ts';
import { userIdOf } from '../../src/gatehouse/users/user-id.ts';
import type { ConnectedApp } from '../../src/shared/provider/connected-app.ts';
import { sessionCookieName } from '../../src/shared/sessions/browser-sessions.ts';
import { createSessionLists } from '../../src/shared/sessions/session-lists.ts';
import { createSessionRecords } from '../../src/shared/sessions/session-record.ts';
import { retryWhileUnavailable } from '../../src/shared/storage/retry.ts';
import { createSealedJson } from '../../src/shared/storage/sealed-json.ts';
import { appOfFile } from '../support/apps.ts';
import { openSharedStorage } from '../support/fleet.ts';
import { type PreparedRequest, prepareRequest } from './connection.ts';
import type { Site } from './site.ts';
import { threadOf } from './upstream.ts';

const ISSUER = 'https://idp.bench.example';
const LIFETIMES = { idleSeconds: 1_800, maxSeconds: 28_800 };
const USERS_AT_ONCE = 200;
/** As long as the self-contained tokens of many providers. */
const TOKEN_CHARACTERS = 800;

/** Returns a request of each user for their own thread, which names its owner. */
export async function createSignedInUsers(
  { url, env }: Pick<Site, 'url' | 'env'>,
  count: number,
): Promise<PreparedRequest[]> {
  const { store, sealer, grants } = await openSharedStorage(env);
  const app = appOfFile(env);
  const clock = Date.now;
  const lists = createSessionLists({ store, maxSeconds: LIFETIMES.maxSeconds, clock });
  const records = createSessionRecords({
    store,
    sealedJson: createSealedJson(sealer),
    lists,
    lifetimes: LIFETIMES,
    clock,
  });
  const threadUrl = `${url}/threads/current`;
  const createSignedInUser = async (n: number): Promise<PreparedRequest> => {
    const subject = `user-${n}`;
    const userId = userIdOf(ISSUER, subject);
    const grant = grantOf(userId, app, subject);
    await retryWhileUnavailable(() => grants.save(grant, 0));
    const user = { id: userId, issuer: ISSUER, subject, name: subject, email: `${subject}@example.test`, admin: false };
    const sessionId = randomBytes(24).toString('base64url');
    const data = { cookie: new Cookie(), user, csrfToken: randomBytes(32).toString('base64url'), app: 'platform' };
    await retryWhileUnavailable(() => records.write(sessionId, data as unknown as SessionData));
    const cookie = `${sessionCookieName(url)}=${encodeURIComponent(`s:${sign(sessionId, env.SESSION_SECRETS ?? '')}`)}`;
    return prepareRequest(threadUrl, {
      headers: { accept: 'application/json', cookie },
      body: threadOf(grant.accessToken),
    });
  };
  try {
    const requests: PreparedRequest[] = [];
    while (requests.length < count) {
      const from = requests.length;
      const size = Math.min(USERS_AT_ONCE, count - from);
      requests.push(...(await Promise.all(Array.from({ length: size }, (_, n) => createSignedInUser(from + n)))));
    }
    return requests;
  } finally {
    await store.close();
  }
}

function grantOf(userId: string, app: ConnectedApp, subject: string): Grant {
  const now = Date.now();
  const text = randomBytes(TOKEN_CHARACTERS).toString('base64url');
  return {
    id: newConnectionId(),
    userId,
    appId: app.id,
    registration: registrationOf(app),
    accessToken: `at-${text.slice(0, TOKEN_CHARACTERS)}`,
    refreshToken: `rt-${randomBytes(32).toString('base64url')}`,
    scopes: ['openid', 'read'],
    account: { subject, name: subject },
    connectedAt: now,
    consentedAt: now,
    obtainedAt: now,
    expiresAt: now + 7_200_000,
    failure: undefined,
    refresh: undefined,
  };
}
