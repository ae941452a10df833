/** How the sandbox treats a refresh token that is used twice, under each policy of the other tests here. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { CLIENT_SECRET, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { type TokenEndpoint, watchTokenEndpoint } from '../support/token-endpoint.ts';

let site: TestSite;
let tokenEndpoint: TokenEndpoint;
let firstToken: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { refreshTokens: { graceSeconds: 3_600 } } });
  tokenEndpoint = watchTokenEndpoint(site.sandbox);
});
afterAll(() => {
  tokenEndpoint.close();
  return site.close();
});
beforeEach(async () => {
  await signIn(site);
  firstToken = tokenEndpoint.issued.at(-1)?.refreshToken ?? '';
});

async function refresh(refreshToken: string): Promise<{ refresh_token?: string; error?: string }> {
  const response = await fetch(`${site.sandbox.issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`test-platform:${CLIENT_SECRET}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: refreshToken }),
  });
  return (await response.json()) as { refresh_token?: string; error?: string };
}

describe('refresh tokens', () => {
  test('rotating: a second use is refused and also ends the new token', async () => {
    site.sandbox.refreshTokens.policy = 'rotating';
    const { refresh_token: secondToken = '' } = await refresh(firstToken);
    expect(secondToken).toMatch(/./);
    expect(secondToken).not.toBe(firstToken);
    expect(await refresh(firstToken)).toMatchObject({ error: 'invalid_grant' });
    expect(await refresh(secondToken)).toMatchObject({ error: 'invalid_grant' });
  });

  test('reusable: the token stays the same', async () => {
    site.sandbox.refreshTokens.policy = 'reusable';
    expect(await refresh(firstToken)).toMatchObject({ refresh_token: firstToken });
    expect(await refresh(firstToken)).toMatchObject({ refresh_token: firstToken });
  });

  test('grace: the token may be used again until the grace period after the first use ends', async () => {
    Object.assign(site.sandbox.refreshTokens, { policy: 'grace', graceSeconds: 3_600 });
    const { refresh_token: secondToken = '' } = await refresh(firstToken);
    const { refresh_token: thirdToken = '' } = await refresh(firstToken);
    expect(new Set([firstToken, secondToken, thirdToken, '']).size).toBe(4);
    expect(await refresh(secondToken)).toHaveProperty('refresh_token');

    site.sandbox.refreshTokens.graceSeconds = 0;
    expect(await refresh(firstToken)).toMatchObject({ error: 'invalid_grant' });
  });
});
