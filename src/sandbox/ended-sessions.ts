/** Ends all sessions of an account, with back-channel logout to its apps. */
import type { Provider } from 'oidc-provider/lib/provider.js';
import type { ProviderRecords } from './provider-records.ts';

interface Parts {
  provider: Provider;
  records: ProviderRecords;
  report: (error: unknown) => void;
}

/** Resolves once every logout token has been delivered or has failed. Failures are only reported. */
export function createSessionEnding({ provider, records, report }: Parts) {
  async function notify(clientId: string, accountId: string, sid: string | undefined): Promise<void> {
    const client = await provider.Client.find(clientId);
    if (client?.backchannelLogoutUri !== undefined) await client.backchannelLogout(accountId, sid).catch(report);
  }

  return async function endSessionsOf(accountId: string): Promise<void> {
    const sessions = records.all('Session').filter(({ payload }) => payload.accountId === accountId);
    for (const { id } of sessions) await records.adapterFor('Session').destroy(id);
    const visits = sessions.flatMap(({ payload }) =>
      Object.entries((payload.authorizations ?? {}) as Record<string, { sid?: string }>),
    );
    await Promise.all(visits.map(([clientId, { sid }]) => notify(clientId, accountId, sid)));
  };
}
