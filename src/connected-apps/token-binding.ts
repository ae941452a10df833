/** Owns when the tokens of an app are bound to a key (RFC 9449), and the proof that goes with a call for them. */
import * as client from 'openid-client';
import type { ConnectedApp } from './connected-app.ts';
import { type DpopKey, dpopKeyPair, makeDpopKey } from './dpop.ts';

const servers = new WeakMap<client.Configuration, Readonly<client.ServerMetadata>>();

/** What is known of the provider: asked for once, since the library copies all of it each time. */
export function serverOf(configuration: client.Configuration): Readonly<client.ServerMetadata> {
  const known = servers.get(configuration);
  if (known) return known;
  const server = configuration.serverMetadata();
  servers.set(configuration, server);
  return server;
}

export interface Proof {
  key: DpopKey | undefined;
  options: client.DPoPOptions;
}

/** A key where tokens are bound: the one that they are bound to already, or a new one. */
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

/** `auto`: where the provider takes pushed requests alone and knows DPoP, as the FAPI 2.0 Security Profile has it. */
function bindsTokens(app: ConnectedApp, server: client.ServerMetadata): boolean {
  const algorithms: unknown = server.dpop_signing_alg_values_supported;
  const isDemanded = server.require_pushed_authorization_requests === true && Array.isArray(algorithms);
  return app.dpop === 'required' || (app.dpop === 'auto' && isDemanded && algorithms.includes('ES256'));
}
