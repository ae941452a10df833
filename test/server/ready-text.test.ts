/** The output of `npm start`: addresses, storage, number of apps, and what is missing before users can sign in. */
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { readyText } from '../../src/gatehouse/ready-text.ts';
import { loadConfig } from '../../src/shared/config/config.ts';
import { announce } from '../../src/shared/observability/announce.ts';
import { type ConnectedApp, connectedAppSchema } from '../../src/shared/provider/connected-app.ts';
import { VERSION } from '../../src/shared/version.ts';

const PUBLIC_URL = 'https://gatehouse.example.com';
const CALLBACK_URL = `${PUBLIC_URL}/oauth/callback/platform`;

function linesFor(apps: readonly object[], settings: Record<string, string> = {}): string[] {
  const { values } = loadConfig({ env: { PUBLIC_URL, ...settings }, readFile: () => '' });
  const connectedApps = apps.map((app): ConnectedApp => {
    const facts = {
      id: 'platform',
      name: 'Platform',
      issuer: 'https://id.example.com',
      clientId: 'c',
      scopes: ['openid'],
    };
    return { ...connectedAppSchema.parse({ ...facts, callbackUrls: [CALLBACK_URL], ...app }), clientSecret: undefined };
  });
  return readyText(values, connectedApps).text.trimEnd().split('\n');
}

const signIn = { allow: 'everyone' };

test('the text names the addresses, the storage and the number of apps', () => {
  expect(linesFor([{ signIn }])).toEqual([
    `Gatehouse is ready at ${PUBLIC_URL}`,
    `It listens on 127.0.0.1:3000, for health and metrics on 127.0.0.1:3009. Version: ${VERSION}. Storage: SQLite in ${resolve('data')}. 1 connected app.`,
  ]);
  const otherSettings = { HOST: '::', PORT: '8080', REDIS_URL: 'redis://:a-password@127.0.0.1' };
  expect(linesFor([{ signIn }, { id: 'other' }], otherSettings)[1]).toBe(
    `It listens on [::]:8080, for health and metrics on 127.0.0.1:3009. Version: ${VERSION}. Storage: Redis at 127.0.0.1:6379. 2 connected apps.`,
  );
});

test.each([
  ['there is no app', [], 'No user can sign in yet: add an app with signIn to CONNECTED_APPS_FILE'],
  ['no app is for sign-in', [{}], 'No user can sign in yet: add an app with signIn to CONNECTED_APPS_FILE'],
  ['it is disabled', [{ signIn, disabled: true }], 'every app that users sign in with is disabled'],
  [
    'it lacks the callback URL',
    [{ signIn, callbackUrls: ['https://other.example.com/cb'] }],
    `add ${CALLBACK_URL} to its callbackUrls`,
  ],
])('says what to do if %s', (_name, apps, advice) => {
  expect(linesFor(apps)[2]).toContain(advice);
});

test('names the host in its own script, too', () => {
  const [first] = linesFor([{ signIn }], { PUBLIC_URL: 'https://BÜCHER.example' });
  expect(first).toBe('Gatehouse is ready at https://xn--bcher-kva.example (bücher.example)');
});

test('the output is text on a terminal, and otherwise a JSON line of the log', async () => {
  const ready = { text: 'Ready at a.\nIt listens.\n', msg: 'Ready at a.', facts: { apps: 2, advice: undefined } };
  const printed: string[] = [];
  const logged: string[] = [];
  const write = (text: string) => void printed.push(text);
  const logs = { write: (line: string) => void logged.push(line), flush: async () => undefined };
  await announce(ready, { isTTY: true, write }, logs);
  expect([printed, logged]).toEqual([[ready.text], []]);

  await announce(ready, { isTTY: false, write }, logs);
  expect(printed.length).toBe(1);
  expect(logged.map((line) => JSON.parse(line))).toEqual([
    { level: 30, time: expect.any(String), apps: 2, msg: 'Ready at a.' },
  ]);
});
