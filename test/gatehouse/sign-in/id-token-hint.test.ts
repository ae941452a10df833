/** The ID token that a sign-out sends to the provider as a hint: which one, how it is stored, and for how long. */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { createTestStorage, type TestStorage } from '../../support/test-storage.ts';
import { attempt, csrfTokenOf, type HostileSite, startHostileSite } from './attempt.ts';

let storage: TestStorage;
let provider: HostileProvider;
let site: HostileSite;
const idTokens: string[] = [];
const isJwt = (value: string) => value.split('.').length === 3;
beforeAll(async () => {
  storage = await createTestStorage('SQLite');
  provider = await startHostileProvider();
  provider.setModes({
    onIssued: (value) => {
      if (isJwt(value)) idTokens.push(value);
    },
  });
  site = await startHostileSite({ provider, env: storage.env });
});
afterAll(async () => {
  await site?.close();
  await provider?.close();
  await storage?.dispose();
});

async function signIn(): Promise<{ agent: UserAgent; idToken: string }> {
  const { agent, signedIn } = await attempt(site);
  expect(signedIn).toBe(true);
  return { agent, idToken: idTokens.at(-1) ?? '' };
}

async function signOut(agent: UserAgent, path = '/sign-out'): Promise<{ endpoint: string; hint: string | null }> {
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
  const { headers } = await agent.request(site.url + path, { method: 'POST', body, follow: false });
  const { origin, pathname, searchParams } = new URL(headers.get('location') ?? '');
  return { endpoint: origin + pathname, hint: searchParams.get('id_token_hint') };
}
async function readHintOfSignOut(agent: UserAgent, path?: string): Promise<string | null> {
  const { hint } = await signOut(agent, path);
  return hint;
}

async function readStoredIdTokens() {
  const items = await storage.items();
  return items.flatMap((item) => ('record' in item && item.record.startsWith('session-id-token:') ? [item] : []));
}

test('the hint of a user in many groups is left out, since providers refuse such a long URL', async () => {
  provider.signInAs({ sub: 'member', groups: Array.from({ length: 60 }, () => randomUUID()) });
  const { agent, idToken } = await signIn();
  expect(idToken.length).toBeGreaterThan(2_000);
  expect(await signOut(agent)).toEqual({ endpoint: `${provider.issuer}/end_session`, hint: null });
  provider.signInAs({ sub: 'user-1', name: 'Ada Quill', email: 'ada@example.test' });
});

test('R100 the hint is the ID token that the session began with', async () => {
  const laptop = await signIn();
  const phone = await signIn();
  expect(laptop.idToken).not.toBe(phone.idToken);
  expect(await readHintOfSignOut(laptop.agent)).toBe(laptop.idToken);
  expect(await readHintOfSignOut(phone.agent, '/sign-out/everywhere')).toBe(phone.idToken);
});

test('a reconnect with another ID token does not change the hint', async () => {
  const { agent, idToken } = await signIn();
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
  await agent.request(`${site.url}/connections/elsewhere`, { method: 'POST', body });
  expect(idTokens.at(-1)).not.toBe(idToken);
  expect(await readHintOfSignOut(agent)).toBe(idToken);
});

test('the hint is stored sealed, for at most the time of the session, and deleted with it', async () => {
  const { agent, idToken } = await signIn();
  const otherSession = await signIn();
  expect(await readStoredIdTokens()).toHaveLength(2);
  expect(JSON.stringify(await storage.items())).not.toContain(idToken.split('.')[1]);

  await signOut(agent);
  const storedIdTokens = await readStoredIdTokens();
  expect(storedIdTokens).toHaveLength(1);
  expect(storedIdTokens[0]?.expiresAt).toBeLessThanOrEqual(Date.now() + 8 * 3_600_000);

  await signOut(otherSession.agent, '/sign-out/everywhere');
  expect(await readStoredIdTokens()).toEqual([]);
});

test('a sign-out without a hint still reaches the provider', async () => {
  const { agent } = await signIn();
  await storage.withStore(async (store) => {
    for (const { record } of await readStoredIdTokens()) await store.write([{ delete: record }]);
  });
  expect(await readHintOfSignOut(agent)).toBeNull();
});

test('R116 the hint is not sent to another provider or for another client, and is sent again after a change back', async () => {
  const otherProvider = await startHostileProvider();
  const restartWith = async (app: object) => {
    writeFileSync(site.env.CONNECTED_APPS_FILE ?? '', JSON.stringify([app]));
    await site.restart();
  };
  const first = await signIn();
  const second = await signIn();
  const third = await signIn();

  await restartWith(otherProvider.app(site.url));
  expect(await signOut(first.agent)).toEqual({ endpoint: `${otherProvider.issuer}/end_session`, hint: null });

  await restartWith(provider.app(site.url, { clientId: 'another-client' }));
  expect(await signOut(second.agent)).toEqual({ endpoint: `${provider.issuer}/end_session`, hint: null });

  await restartWith(provider.app(site.url));
  expect(await signOut(third.agent)).toEqual({ endpoint: `${provider.issuer}/end_session`, hint: third.idToken });
  expect(JSON.stringify(otherProvider.hits)).not.toContain(first.idToken.split('.')[1]);
  await otherProvider.close();
});
