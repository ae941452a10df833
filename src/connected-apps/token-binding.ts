/** Whether tokens of an app are bound to a DPoP key, and the proof for a call to the token endpoint (RFC 9449). */
import * as client from 'openid-client';
import type { ConnectedApp } from './connected-app.ts';
import { type DpopKey, dpopKeyPair, makeDpopKey } from './dpop.ts';

const servers = new WeakMap<client.Configuration, Readonly<client.ServerMetadata>>();

/** The provider's metadata. Cached, since the library copies it on each call. */
export function serverOf(configuration: client.Configuration): Readonly<client.ServerMetadata> {
  const cached = servers.get(configuration);
  if (cached) return cached;
  const server = configuration.serverMetadata();
  servers.set(configuration, server);
  return server;
}

export interface Proof {
  key: DpopKey | undefined;
  options: client.DPoPOptions;
}

/** @param key the key that the tokens are bound to already; otherwise a new one is made where tokens are to be bound */
export async function proofFor(
  app: ConnectedApp,
  configuration: client.Configuration,
  key: DpopKey | undefined,
): Promise<Proof> {
  return proofWith(configuration, bindsTokens(app, serverOf(configuration)) ? (key ?? (await makeDpopKey())) : key);
}

export async function proofWith(configuration: client.Configuration, key: DpopKey | undefined): Promise<Proof> {
  return { key, options: key ? { DPoP: client.getDPoPHandle(configuration, await dpopKeyPair(key)) } : {} };
}

/** `auto`: where the provider requires pushed requests and supports DPoP, as in the FAPI 2.0 Security Profile. */
function bindsTokens(app: ConnectedApp, server: client.ServerMetadata): boolean {
  const algorithms: unknown = server.dpop_signing_alg_values_supported;
  const isFapi = server.require_pushed_authorization_requests === true && Array.isArray(algorithms);
  return app.dpop === 'required' || (app.dpop === 'auto' && isFapi && algorithms.includes('ES256'));
}
