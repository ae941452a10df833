/** A replaced client secret stays valid for the time that the administrator chose. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { advanceClock } from '../support/test-clock.ts';
import { CLIENT, type ForeignClient, openConsole, startForeignClient } from './foreign-client.ts';

let client: ForeignClient;
let admin: Awaited<ReturnType<typeof openConsole>>;

beforeAll(async () => {
  client = await startForeignClient();
  admin = await openConsole(client);
});
afterAll(() => client.sandbox.close());

async function isAccepted(clientSecret: string): Promise<boolean> {
  const response = await fetch(`${client.sandbox.issuer}/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: 'unknown',
      client_id: CLIENT.clientId,
      client_secret: clientSecret,
    }),
  });
  const { error } = (await response.json()) as { error: string };
  expect(['invalid_grant', 'invalid_client']).toContain(error);
  return error === 'invalid_grant';
}

/** Returns the new secret and the page that shows it. */
async function replaceSecret(overlap: string) {
  const page = await admin.open(`/apps/${CLIENT.clientId}`);
  const { body } = await admin.browser.submit(page, { overlap }, { button: 'Create a new secret' });
  return { body, secret: /class="secret".*?<code>([^<]+)</s.exec(body)?.[1] ?? '' };
}

it('the old secret expires at the chosen time, and the page shows the time', async () => {
  const first = CLIENT.clientSecret;
  const second = await replaceSecret('day');
  expect(second.body).toContain('A second new secret ends the overlap of the first.');
  expect(second.body).toMatch(/<dt>Old secret<\/dt><dd>works until <time/);
  expect([await isAccepted(first), await isAccepted(second.secret), await isAccepted('guess')]).toEqual([
    true,
    true,
    false,
  ]);

  const third = await replaceSecret('hour');
  expect([await isAccepted(first), await isAccepted(second.secret), await isAccepted(third.secret)]).toEqual([
    false,
    true,
    true,
  ]);

  advanceClock(60 * 60 + 1);
  expect([await isAccepted(second.secret), await isAccepted(third.secret)]).toEqual([false, true]);
  expect((await admin.browser.get(`${client.sandbox.issuer}/console/apps/${CLIENT.clientId}`)).body).not.toContain(
    '<dt>Old secret',
  );

  const fourth = await replaceSecret('');
  expect([await isAccepted(third.secret), await isAccepted(fourth.secret)]).toEqual([false, true]);
  expect(fourth.body).not.toContain('<dt>Old secret');
});
