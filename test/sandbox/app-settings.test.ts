/** Refresh policies, lifetimes and unusual token responses, set for each app. */
import * as oidc from 'openid-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AppOverrides } from '../../src/sandbox/app-settings.ts';
import { advanceClock } from '../support/test-clock.ts';
import { CLIENT, createBrowser, type ForeignClient, startForeignClient } from './foreign-client.ts';

const ENDED_SECONDS = 40;

const APPS: Record<string, AppOverrides> = {
  rotating: { refreshPolicy: 'rotating' },
  reusable: { refreshPolicy: 'reusable', refreshIdleSeconds: 100 },
  grace: { refreshPolicy: 'grace', graceSeconds: 20 },
  odd: { sendExpiresIn: false, accessTokenSeconds: 30, tokenDelayMilliseconds: 150 },
  idle: { refreshIdleSeconds: 10 },
  ended: { refreshMaxSeconds: ENDED_SECONDS },
  'ended reusable': { refreshMaxSeconds: ENDED_SECONDS, refreshPolicy: 'reusable' },
};

let client: ForeignClient;
const browser = createBrowser();

beforeAll(async () => {
  const clients = Object.entries(APPS).map(([clientId, settings]) => ({ ...CLIENT, clientId, settings }));
  client = await startForeignClient({ clients: [CLIENT, ...clients] });
});
afterAll(() => client.sandbox.close());

async function signIn(clientId: string) {
  const config = new oidc.Configuration(
    client.config.serverMetadata(),
    clientId,
    {},
    oidc.ClientSecretBasic(CLIENT.clientSecret),
  );
  oidc.allowInsecureRequests(config);
  const tokens = await client.signIn({ browser, appConfig: config });
  const refresh = (token = '') => oidc.refreshTokenGrant(config, token);
  return { tokens, refresh };
}

const INVALID_GRANT = { error: 'invalid_grant' };

describe('an app', () => {
  it('with rotation loses its grant when a refresh token is used twice', async () => {
    const { tokens, refresh } = await signIn('rotating');
    const renewed = await refresh(tokens.refresh_token);
    await expect(refresh(tokens.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
    await expect(refresh(renewed.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
  });

  it('with grace may use the old refresh token again for the grace period', async () => {
    const { tokens, refresh } = await signIn('grace');
    const renewed = await refresh(tokens.refresh_token);
    expect((await refresh(tokens.refresh_token)).refresh_token).not.toBe(renewed.refresh_token);

    advanceClock(21);
    await expect(refresh(tokens.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
  });

  it('with a reusable refresh token keeps it while it is used', async () => {
    const { tokens, refresh } = await signIn('reusable');
    for (let use = 0; use < 3; use += 1) {
      advanceClock(60);
      expect((await refresh(tokens.refresh_token)).refresh_token).toBe(tokens.refresh_token);
    }
    advanceClock(101);
    await expect(refresh(tokens.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
  });

  it('loses a refresh token that was idle too long', async () => {
    const { tokens, refresh } = await signIn('idle');
    advanceClock(11);
    await expect(refresh(tokens.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
  });

  it.each(['ended', 'ended reusable'])(
    'loses every refresh token at the maximum time after the sign-in: %s',
    async (clientId) => {
      const { tokens, refresh } = await signIn(clientId);
      const renewed = await refresh(tokens.refresh_token);
      advanceClock(1);
      const lastRefreshToken = (await refresh(renewed.refresh_token)).refresh_token;
      advanceClock(ENDED_SECONDS);
      await expect(refresh(lastRefreshToken)).rejects.toMatchObject(INVALID_GRANT);
    },
  );

  it('may get delayed token responses without expires_in, whose tokens still expire', async () => {
    const { tokens, refresh } = await signIn('odd');
    expect(tokens.expires_in).toBeUndefined();

    const startedAt = performance.now();
    const renewed = await refresh(tokens.refresh_token);
    expect(performance.now() - startedAt).toBeGreaterThan(140);
    expect([renewed.expires_in, (await client.thread(renewed.access_token)).status]).toEqual([undefined, 200]);

    advanceClock(31);
    expect((await client.thread(renewed.access_token)).status).toBe(401);
  });

  it('without settings uses the current settings of the sandbox', async () => {
    const { tokens, refresh } = await signIn(CLIENT.clientId);
    expect([tokens.expires_in, tokens.instance_url]).toEqual([60, client.sandbox.platformUrl]);

    client.sandbox.refreshTokens.policy = 'reusable';
    expect((await refresh(tokens.refresh_token)).refresh_token).toBe(tokens.refresh_token);

    client.sandbox.refreshTokens.policy = 'rotating';
    expect((await refresh(tokens.refresh_token)).refresh_token).not.toBe(tokens.refresh_token);
  });
});
