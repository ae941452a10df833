/** R139: programs on one host name, at other ports or paths, have their own cookies. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cookieName } from '../../../src/shared/http/cookie-name.ts';
import { begin, callbackFor, csrfTokenOf, isSignedIn, startHostileSite } from '../../gatehouse/sign-in/attempt.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

test.each([
  ['https://gatehouse.example.com', '__Host-gatehouse'],
  ['https://gatehouse.example.com:443', '__Host-gatehouse'],
  ['https://gatehouse.example.com:8443', '__Host-gatehouse.8443'],
  ['https://example.com/auth', '__Host-gatehouse+auth'],
  ['https://example.com/8443', '__Host-gatehouse+8443'],
  ['https://example.com:8443/auth/v.1', '__Host-gatehouse.8443+auth+v.1'],
  ['http://127.0.0.1', 'gatehouse'],
  ['http://127.0.0.1:3000', 'gatehouse.3000'],
  ['http://[::1]:3000/a-b', 'gatehouse.3000+a-b'],
])('R139 the session cookie of %s is %s', (publicHref, name) => {
  expect(cookieName('gatehouse', publicHref)).toBe(name);
  // A token (RFC 6265, section 4.1.1).
  expect(name).toMatch(/^[\w!#$%&'*+.^`|~-]+$/);
});

let one: TestSite;
let two: TestSite;
beforeAll(async () => {
  one = await startSite();
  two = await startSite();
});
afterAll(async () => {
  await one.close();
  await two.close();
});

test('R139 signing in at one of two on a host name neither signs out at the other nor ends its sign-ins', async () => {
  const { agent } = await signIn(one);
  const hostile = await startHostileSite();
  try {
    const { location } = await begin(hostile, { agent });
    await signIn(two, 'second@example.test', { agent });
    expect([await isSignedIn(one, agent), await isSignedIn(two, agent)]).toEqual([true, true]);
    await agent.get((await callbackFor(location)).href);
    expect(await isSignedIn(hostile, agent)).toBe(true);
    const csrf = await csrfTokenOf(two, agent);
    await agent.request(`${two.url}/sign-out`, {
      method: 'POST',
      body: new URLSearchParams({ _csrf: csrf }),
      follow: false,
    });
    expect([await isSignedIn(one, agent), await isSignedIn(two, agent)]).toEqual([true, false]);
  } finally {
    await hostile.close();
  }
});
