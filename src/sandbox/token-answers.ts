/** Owns what the settings of an app change about answers of the token endpoint. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProviderContext } from 'oidc-provider/lib/provider.js';
import { refreshTokenSeconds } from './app-settings.ts';
import type { AppRegistry } from './apps.ts';
import type { ProviderRecords } from './provider-records.ts';

interface TokenAnswer {
  access_token?: string;
  refresh_token?: string;
  expires_in?: number;
}

interface Parts {
  apps: AppRegistry;
  records: ProviderRecords;
  platformUrl: string;
}

export function createTokenAnswers({ apps, records, platformUrl }: Parts) {
  return async function shapeTokenAnswer(ctx: ProviderContext, next: () => Promise<void>): Promise<void> {
    await next();
    const { oidc } = ctx;
    if (oidc?.route !== 'token' || oidc.client === undefined) return;
    const settings = apps.settingsOf(oidc.client.clientId);
    const answer = ctx.body as TokenAnswer;
    if (answer.access_token !== undefined) {
      const { expires_in, ...without } = answer;
      // Such providers say in each answer where calls with the token go.
      ctx.body = { ...without, ...(settings.sendExpiresIn ? { expires_in } : {}), instance_url: platformUrl };
      const isReused = answer.refresh_token !== undefined && answer.refresh_token === oidc.params.refresh_token;
      const seconds = (since: number) => refreshTokenSeconds(settings, since, Math.floor(Date.now() / 1000));
      if (isReused) records.prolong(answer.refresh_token ?? '', seconds);
    }
    if (settings.tokenDelayMilliseconds > 0) await sleep(settings.tokenDelayMilliseconds, undefined, { ref: false });
  };
}
