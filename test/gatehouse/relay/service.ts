/** A back-end service and an administrator for tests of the relay. */
import { randomBytes } from 'node:crypto';
import { createAdminTokens } from '../../../src/gatehouse/admin-tokens/admin-tokens.ts';
import { createRelayTokens } from '../../../src/gatehouse/relay/relay-token.ts';
import { newOpaqueTokenId } from '../../../src/shared/storage/opaque-token.ts';
import type { Sealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { ACCEPT_JSON, FORM_BODY, JSON_BODY, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';

export interface Administrator {
  call(method: string, path: string, body?: unknown): Promise<{ status: number; json: Record<string, unknown> }>;
  /** Creates a relay token. @throws Error if Gatehouse refuses it */
  createRelayToken(changes?: Record<string, unknown>): Promise<{ id: string; version: number; token: string }>;
}

/** An administrator who uses the API, with an admin token that is written to the store. */
export async function createAdministrator(
  site: { url: string },
  { store, sealer }: { store: Store; sealer: Sealer },
): Promise<Administrator> {
  const tokens = createAdminTokens({ store, sealedJson: createSealedJson(sealer), clock: Date.now });
  const { text } = await tokens.create({
    id: newOpaqueTokenId(),
    name: 'test',
    scope: 'write',
    expiresAt: Date.now() + 3_600_000,
  });
  const call: Administrator['call'] = async (method, path, body) => {
    const headers = { ...ACCEPT_JSON, ...JSON_BODY, authorization: `Bearer ${text}` };
    const response = await sendRequest(`${site.url}/admin/api${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, json: response.body === '' ? {} : JSON.parse(response.body) };
  };
  return {
    call,
    async createRelayToken(changes = {}) {
      const { status, json } = await call('POST', '/relay-tokens', { ...PERMISSIVE_POLICY, ...changes });
      if (status !== 201) throw new Error(`No relay token: ${status} ${JSON.stringify(json)}`);
      return json as { id: string; version: number; token: string };
    },
  };
}

/** A policy that allows every call for a proven user. */
export const PERMISSIVE_POLICY = {
  name: 'reports',
  scopes: ['threads:read', 'bin:read', 'token:exchange', 'connections:read', 'connect_links:create', 'api:call'],
  apps: ['platform'],
  routes: 'reads',
  users: 'all',
  networks: ['127.0.0.0/8'],
  expiresAt: '2099-01-31T00:00:00Z',
};

/** Lets the token expire. */
export async function expireRelayToken({ store, sealer }: { store: Store; sealer: Sealer }, id: string): Promise<void> {
  const tokens = await createRelayTokens({ store, sealedJson: createSealedJson(sealer), clock: Date.now });
  const stored = await tokens.find(id);
  if (!stored) throw new Error(`There is no relay token ${id}.`);
  const { version, ...token } = stored;
  await tokens.change(id, version, { ...token, expiresAt: Date.now() - 1 });
  await tokens.close();
}

export const bearer = (token: string) => ({ ...ACCEPT_JSON, authorization: `Bearer ${token}` });

export function relayThread(
  site: { url: string },
  token: string,
  headers: Record<string, string | string[]>,
  query = '',
): Promise<ReceivedResponse> {
  return sendRequest(`${site.url}/relay/threads/current${query}`, { headers: { ...bearer(token), ...headers } });
}

export function exchange(
  site: { url: string },
  token: string,
  form: Record<string, string>,
  headers: Record<string, string> = {},
): Promise<ReceivedResponse> {
  return sendRequest(`${site.url}/relay/token`, {
    method: 'POST',
    headers: { ...bearer(token), ...FORM_BODY, ...headers },
    body: new URLSearchParams({ grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange', ...form }).toString(),
  });
}

/** The user assertion of a signed-in browser. */
export async function assertionOf(site: { url: string }, cookie: string, audience?: string): Promise<string> {
  const query = audience === undefined ? '' : `?audience=${encodeURIComponent(audience)}`;
  const response = await sendRequest(`${site.url}/session/verify${query}`, { headers: { ...ACCEPT_JSON, cookie } });
  return String(response.headers['gatehouse-user-assertion'] ?? '');
}

export const codeOf = (response: ReceivedResponse): unknown => JSON.parse(response.body).code;

/** A token in the right form, whose checksum is wrong. */
export const inventedToken = (): string => `gthr_${randomBytes(60).toString('hex').slice(0, 60)}`;
