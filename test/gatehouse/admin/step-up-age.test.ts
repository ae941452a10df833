/** R102: the administration requires a recent authentication, whether the session began with a step-up or not. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { attempt, type HostileSite, startHostileSite, textOf } from '../sign-in/attempt.ts';

let site: HostileSite;
beforeAll(async () => {
  site = await startHostileSite({ env: { ADMIN_ACR: 'mfa' } });
});
afterAll(() => site.close());
afterEach(() => site.provider.reset());

const secondsAgo = (age: number) => Math.floor(Date.now() / 1000) - age;

/** Sets the time of the administrator’s authentication in the ID token. */
function setAuthTime(authTime: number | undefined): void {
  site.provider.setModes({
    claims: ({ auth_time: _, ...claims }) => ({
      ...{ ...claims, acr: 'mfa', groups: ['gatehouse-admins'] },
      ...(authTime === undefined ? {} : { auth_time: authTime }),
    }),
  });
}

async function signInWith(authTime: number | undefined) {
  setAuthTime(authTime);
  const { agent, signedIn } = await attempt(site);
  expect(signedIn).toBe(true);
  return agent;
}
const adminStatus = async (agent: UserAgent) => (await getJson(agent, `${site.url}/admin/api/users`)).status;

test('R102 accepts a sign-in whose authentication is at most 900 seconds old', async () => {
  const agent = await signInWith(secondsAgo(890));
  expect(await adminStatus(agent)).toBe(200);
  expect((await agent.get(`${site.url}/admin`)).visited).toHaveLength(1);
});

test('R102 refuses an older authentication, and requests a new one with max_age', async () => {
  const agent = await signInWith(secondsAgo(905));
  expect(await adminStatus(agent)).toBe(403);
  const refused = await agent.get(`${site.url}/admin`);
  expect([refused.status, new URL(refused.url).pathname]).toEqual([403, '/oauth/callback/elsewhere']);
  const authorizationRequests = refused.visited.filter((url) => url.includes('/authorize'));
  expect(authorizationRequests.map((url) => new URL(url).searchParams.get('max_age'))).toEqual(['900']);

  setAuthTime(secondsAgo(0));
  const page = await agent.get(`${site.url}/admin`);
  expect([page.status, page.url]).toEqual([200, `${site.url}/admin`]);
  expect(await adminStatus(agent)).toBe(200);
});

test('R102 refuses an authentication time more than 30 seconds ahead, such as one in milliseconds', async () => {
  const agent = await signInWith(secondsAgo(-30));
  expect(await adminStatus(agent)).toBe(200);

  for (const authTime of [secondsAgo(-120), Date.now()]) {
    const refusedAgent = await signInWith(authTime);
    expect(await adminStatus(refusedAgent)).toBe(403);
    expect((await refusedAgent.get(`${site.url}/admin`)).status).toBe(403);
  }
});

test.each([
  ['no auth_time', undefined],
  ['an auth_time of 0', 0],
])('R102 %s: after one more sign-in, the user sees what the provider omits', async (_words, authTime) => {
  const admin = await signInWith(secondsAgo(0));
  const agent = await signInWith(authTime);
  expect(await adminStatus(agent)).toBe(403);
  const page = await agent.get(`${site.url}/admin`);
  expect(page.visited.filter((url) => url.includes('/authorize'))).toHaveLength(1);
  expect(page.status).toBe(403);
  expect(textOf(page.body)).toContain('did not say when you last signed in there');
  expect(page.body).toContain('/sign-in?app=elsewhere&amp;step_up=1');
  const reference = /data-copy-source>([^<]+)</.exec(page.body)?.[1];
  const { json } = await getJson(admin, `${site.url}/admin/api/sign-ins/${reference}`);
  expect(json.cause).toMatchObject({ code: 'auth_time_missing' });
  expect((await getJson(agent, `${site.url}/session`)).json.signedIn).toBe(true);
});
