/** The watch over all logs of the tests recognises credentials, and has credentials to compare with. */
import { expect, test } from 'vitest';
import { credentialsIn, linesWithCredentials } from '../../support/credentials.ts';
import { CLIENT_SECRET, signIn, startSite } from '../../support/gatehouse.ts';
import { watchedCounts } from '../../support/log-watch.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';

const TOKEN = 'gthr_4fB9xQ2mZ7kLw8RtY1cVn3Hs';

test.each([
  ['a header', `GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`],
  ['credentials of a client', `POST /token HTTP/1.1\r\nauthorization: Basic ${btoa(`id:${TOKEN}`)}\r\n\r\n`],
  ['a key as user name', `GET / HTTP/1.1\r\nauthorization: Basic ${btoa(`${TOKEN}:`)}\r\n\r\n`],
  ['a cookie', `GET / HTTP/1.1\r\ncookie: a=b; gatehouse=s%3A${TOKEN}.x\r\n\r\n`],
  ['a form', `POST /token HTTP/1.1\r\n\r\ngrant_type=refresh_token&refresh_token=${TOKEN}&scope=a`],
  ['a URL', `GET /oauth/callback/platform?code=${TOKEN}&state=b HTTP/1.1\r\n\r\n`],
  ['a request in the log of a server', `/relay/bin/457173\nAuthorization: Bearer ${TOKEN}`],
])('R88 recognises a credential of %s in any line', (_place, message) => {
  const credentials = new Set(credentialsIn(message));
  const lines = [
    `{"msg":"a","url":"/x?token=${TOKEN}"}`,
    '{"msg":"b","requestId":"3b241101-e2bb-4255-8caf-4136c566a962"}',
  ];
  expect(linesWithCredentials(lines, credentials)).toEqual([lines[0]]);
});

test('R88 ids and words are not credentials', () => {
  const message = 'GET /?code=short&token=3b241101-e2bb-4255-8caf-4136c566a962 HTTP/1.1\r\ncookie: theme=dark\r\n\r\n';
  expect(credentialsIn(message)).toEqual([]);
});

test('R88 a sign-in produces lines with request ids, and credentials to search for', async () => {
  const countsBefore = watchedCounts();
  const site = await startSite({ env: { LOG_LEVEL: 'trace' } });
  const { agent } = await signIn(site);
  const headers = { ...ACCEPT_JSON, cookie: agent.cookies.header(site.url) };
  const missing = await sendRequest(`${site.url}/no-such-page`, { headers });
  await site.close();
  const countsAfter = watchedCounts();
  expect(countsAfter.lines - countsBefore.lines).toBeGreaterThanOrEqual(3);
  // Both kinds of cookies, the client secret, code, verifier, access token, and the keys of the settings.
  expect(countsAfter.credentials - countsBefore.credentials).toBeGreaterThanOrEqual(8);
  expect(CLIENT_SECRET.length).toBeGreaterThan(16);

  const logged = site.logs().map((line) => JSON.parse(line));
  const failed = logged.find(({ msg }) => msg === 'request failed');
  expect(failed?.requestId).toBe(missing.headers['x-request-id']);

  const signedIn = logged.find(({ msg }) => msg === 'sign-in ended');
  expect(signedIn?.requestId).toMatch(/^[0-9a-f-]{36}$/);
});
