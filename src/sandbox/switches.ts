/** Switches for a demo, which change the tokens of a user and the keys of the provider without a request. */
import initializeKeystore from 'oidc-provider/lib/helpers/initialize_keystore.js';
import type { Provider } from 'oidc-provider/lib/provider.js';
import type { Accounts } from './accounts.ts';
import type { Approvals } from './approvals.ts';
import type { ProviderRecords } from './provider-records.ts';
import type { SigningKeys } from './signing-keys.ts';

/** A user's access for one app. */
export interface Access {
  login: string;
  clientId: string;
}

export interface Switches {
  /** Grants the app access as if the user had consented. @param resource RFC 8707 @returns the refresh token */
  allow(access: Access, scopes: readonly string[], resource?: string): Promise<string>;
  isAllowed(access: Access): boolean;
  /** Ends the access tokens. The refresh token remains valid. */
  expireAccessTokens(access: Access): void;
  /** Ends every token, as if the user had withdrawn the consent. */
  revoke(access: Access): void;
  /** Publishes the next signing keys in addition to the current ones, as providers do before a rotation. */
  publishNextKeys(): Promise<void>;
  /** Signs ID tokens with the next keys, and removes the earlier ones. */
  signWithNextKeys(): void;
}

export function createSwitches(parts: {
  provider: Provider;
  accounts: Accounts;
  approvals: Approvals;
  records: ProviderRecords;
  signingKeys: SigningKeys;
}): Switches {
  const { provider, accounts, approvals, records, signingKeys } = parts;
  const idOf = (login: string) => accounts.byLogin(login)?.id ?? '';

  return {
    async allow({ login, clientId }, scopes, resource) {
      const client = await provider.Client.find(clientId);
      if (client === undefined) throw new Error(`The sandbox has no app ${clientId}.`);
      const parties = { accountId: idOf(login), clientId };
      const scope = scopes.join(' ');
      const grant = new provider.Grant(parties);
      grant.addOIDCScope(scope);
      if (resource !== undefined) grant.addResourceScope(resource, scope);
      const grantId = await grant.save();
      return new provider.RefreshToken({
        ...parties,
        client,
        grantId,
        gty: 'authorization_code',
        scope,
        resource,
      }).save();
    },
    isAllowed: ({ login, clientId }) => approvals.of(idOf(login)).some((approval) => approval.clientId === clientId),
    expireAccessTokens: ({ login, clientId }) => records.endAccessTokens(idOf(login), clientId),
    revoke: ({ login, clientId }) => approvals.revoke(idOf(login), clientId),
    async publishNextKeys() {
      await signingKeys.publishNext();
      initializeKeystore.call(provider, signingKeys.jwks);
    },
    signWithNextKeys() {
      signingKeys.useNext();
      initializeKeystore.call(provider, signingKeys.jwks);
    },
  };
}
