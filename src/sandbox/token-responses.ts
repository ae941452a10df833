/** Applies the settings of an app to the responses of the token endpoint. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProviderContext } from 'oidc-provider/lib/provider.js';
import { refreshTokenSeconds } from './app-settings.ts';
import type { AppRegistry } from './apps.ts';
import type { ProviderRecords } from './provider-records.ts';

interface TokenResponse {
  access_token?: string;
  refresh_token?: string;
  expires_in?: number;
}

interface Parts {
  apps: AppRegistry;
  records: ProviderRecords;
  platformUrl: string;
}

export function createTokenResponses({ apps, records, platformUrl }: Parts) {
  return async function shapeTokenResponse(ctx: ProviderContext, next: () => Promise<void>): Promise<void> {
    await next();
    const { oidc } = ctx;
    if (oidc?.route !== 'token' || oidc.client === undefined) return;
    const settings = apps.settingsOf(oidc.client.clientId);
    const response = ctx.body as TokenResponse;
    if (response.access_token !== undefined) {
      const { expires_in, ...members } = response;
      // Like some providers, the sandbox states the base URL of the API in each token response.
      ctx.body = { ...members, ...(settings.sendExpiresIn ? { expires_in } : {}), instance_url: platformUrl };
      const isReused = response.refresh_token !== undefined && response.refresh_token === oidc.params.refresh_token;
      const seconds = (since: number) => refreshTokenSeconds(settings, since, Math.floor(Date.now() / 1000));
      if (isReused) records.prolong(response.refresh_token ?? '', seconds);
    }
    if (settings.tokenDelayMilliseconds > 0) await sleep(settings.tokenDelayMilliseconds, undefined, { ref: false });
  };
}
