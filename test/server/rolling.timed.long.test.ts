/** Replaces two replicas on one Redis, one after the other, behind the proxy of compose.yaml, while users call. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Fleet, type FleetUser, LOGINS, type Member, startFleet } from '../support/fleet.ts';
import { skipIfMissing } from '../support/missing.ts';
import { missingNginx, type Nginx, startNginx } from '../support/nginx.ts';
import { freePort } from '../support/ports.ts';
import { IN_MEMORY, missingRedis } from '../support/redis-server.ts';
import { JSON_BODY, sendRequest } from '../support/send-request.ts';

const compose = readFileSync(join(import.meta.dirname, '..', '..', 'compose.yaml'), 'utf8');
const missing = missingNginx ?? missingRedis;

/** The proxy's settings as Compose writes them, with these servers instead of the name that Docker resolves. */
function proxySettings(port: number, members: readonly Member[]): string {
  const [, content = ''] = compose.split(/^ {4}content: \|\n/m);
  const servers = members.map(({ url }) => `$1${new URL(url).host}$2`).join('\n');
  return content
    .replaceAll('$$', '$')
    .replace(/^.*\bresolver .*$/m, '')
    .replace(/^(\s*server )gatehouse:3000 resolve(.*;)$/m, servers)
    .replace('listen 8080', `listen 127.0.0.1:${port}`);
}

describe('R90 a rolling replacement of two replicas on Redis, behind the nginx of compose.yaml', () => {
  let fleet: Fleet;
  let nginx: Nginx;
  let users: FleetUser[];
  let proxy: string;
  beforeAll(async () => {
    if (missing) return;
    // A slow disk would cause 503 responses that have nothing to do with the replacement.
    const env = { TRUSTED_PROXIES: '127.0.0.1', REDIS_DURABILITY: 'none', BIN_SERVICE_URL: 'http://127.0.0.1:1' };
    fleet = await startFleet({ kind: 'Redis', processes: 2, redis: IN_MEMORY, env });
    const port = await freePort();
    proxy = `http://127.0.0.1:${port}`;
    nginx = await startNginx(
      proxySettings(port, fleet.members),
      async () => (await sendThroughProxy('/session')).status === 200,
    );
    // Short, so that tokens are refreshed throughout the test.
    fleet.tokenEndpoint.lifetimeSeconds = 2;
    users = [];
    for (const login of LOGINS) users.push(await fleet.signIn(login));
  });
  afterAll(async () => {
    await nginx?.stop();
    await fleet?.close();
  });

  const sendThroughProxy = (path: string, user?: FleetUser, body?: object) =>
    sendRequest(proxy + path, {
      method: body ? 'POST' : 'GET',
      headers: {
        accept: 'application/json',
        host: new URL(fleet.url).host,
        ...(user && { cookie: user.cookie }),
        ...(user && body && { ...JSON_BODY, 'x-csrf-token': user.csrfToken }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });

  test('the nginx has the rules of docs/deploy.md for a dead replica', () => {
    const rulesOf = (text: string) => text.match(/\b(?:proxy_next_upstream|proxy_connect|max_fails)[^;#:]*(?=;)/g);
    const deploy = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'deploy.md'), 'utf8');
    expect(rulesOf(compose)).toHaveLength(4);
    expect(new Set(rulesOf(deploy))).toEqual(new Set(rulesOf(compose)));
  });

  test('a 503 response does not make nginx skip the replica', async (context) => {
    skipIfMissing(context, missing);
    for (let count = 0; count < 5; count += 1) {
      const refused = await sendThroughProxy('/bin/999999', users[0]);
      expect([refused.status, JSON.parse(refused.body).code]).toEqual([503, 'bin_service_unavailable']);
      expect((await sendThroughProxy('/session')).status).toBe(200);
    }
  });

  test('loses no request, no session and no refresh', async (context) => {
    skipIfMissing(context, missing);
    let isOver = false;
    const responses: Record<string, number> = {};
    const caller = async (user: FleetUser) => {
      for (let turn = 0; !isOver; turn += 1) {
        const kind = ['GET /threads/current', 'POST /bin', 'GET /session'][turn % 3] ?? '';
        const path = kind.split(' ')[1] ?? '';
        const body = kind.startsWith('POST') ? { bins: ['45717360'] } : undefined;
        const response = await sendThroughProxy(path, user, body).catch((error: Error) => ({
          status: 0,
          body: error.message,
        }));
        const isExpected = path === '/session' ? response.body.includes(user.userId) : response.status === 200;
        const outcome = isExpected
          ? `${kind} as expected`
          : `${kind} ${response.status} ${response.body.slice(0, 200)}`;
        responses[outcome] = (responses[outcome] ?? 0) + 1;
        await sleep(5);
      }
    };
    const callers = [...users, ...users, ...users].map(caller);
    await sleep(500);
    for (const member of [...fleet.members, ...fleet.members]) {
      member.signal('SIGTERM');
      expect(await member.program.ended).toEqual({ status: 0, signal: null });
      await sleep(300);
      // The next replica is replaced as soon as this one is ready.
      await member.start();
    }
    isOver = true;
    await Promise.all(callers);
    await fleet.tokenEndpoint.untilIdle();

    const kinds = ['GET /session as expected', 'GET /threads/current as expected', 'POST /bin as expected'];
    expect(Object.keys(responses).toSorted()).toEqual(kinds);

    for (const kind of kinds) expect(responses[kind]).toBeGreaterThan(50);
    expect(fleet.tokenEndpoint.issued.length).toBeGreaterThan(2 * users.length);
    expect(fleet.tokenEndpoint.refusalCount()).toBe(0);

    for (const { userId } of users) {
      const { refreshToken } = await fleet.storage.readGrant(userId);
      expect(refreshToken).toBe(fleet.tokenEndpoint.latestOf(userId)?.refreshToken);
    }
  });
});
