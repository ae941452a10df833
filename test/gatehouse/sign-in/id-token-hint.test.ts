/** The ID token that a sign-out sends to the provider as a hint: which one, how it is stored, and for how long. */
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { createTestStorage, type TestStorage } from '../../support/test-storage.ts';
import { attempt, csrfTokenOf, type HostileSite, startHostileSite } from './attempt.ts';

let place: TestStorage;
let provider: HostileProvider;
let site: HostileSite;
const idTokens: string[] = [];
beforeAll(async () => {
  place = await createTestStorage('SQLite');
  provider = await startHostileProvider();
  provider.setModes({ onIssued: (value) => void (value.split('.').length === 3 && idTokens.push(value)) });
  site = await startHostileSite({ provider, env: place.env });
});
afterAll(async () => {
  await site?.close();
  await provider?.close();
  await place?.dispose();
});

async function signIn(): Promise<{ agent: UserAgent; idToken: string }> {
  const { agent, signedIn } = await attempt(site);
  expect(signedIn).toBe(true);
  return { agent, idToken: idTokens.at(-1) ?? '' };
}

async function signOut(agent: UserAgent, path = '/sign-out'): Promise<{ at: string; hint: string | null }> {
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
  const { headers } = await agent.request(site.url + path, { method: 'POST', body, follow: false });
  const { origin, pathname, searchParams } = new URL(headers.get('location') ?? '');
  return { at: origin + pathname, hint: searchParams.get('id_token_hint') };
}
const hintOf = async (agent: UserAgent, path?: string) => (await signOut(agent, path)).hint;

const kept = async () =>
  (await place.items()).flatMap((item) =>
    'record' in item && item.record.startsWith('session-id-token:') ? [item] : [],
  );

test('R100 the hint is the ID token that the session began with', async () => {
  const [laptop, phone] = [await signIn(), await signIn()];
  expect(laptop.idToken).not.toBe(phone.idToken);
  expect(await hintOf(laptop.agent)).toBe(laptop.idToken);
  expect(await hintOf(phone.agent, '/sign-out/everywhere')).toBe(phone.idToken);
});

test('a reconnect with another ID token does not change the hint', async () => {
  const { agent, idToken } = await signIn();
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
  await agent.request(`${site.url}/connections/elsewhere`, { method: 'POST', body });
  expect(idTokens.at(-1)).not.toBe(idToken);
  expect(await hintOf(agent)).toBe(idToken);
});

test('the hint is stored sealed, and deleted with the session', async () => {
  const { agent, idToken } = await signIn();
  const other = await signIn();
  expect(await kept()).toHaveLength(2);
  expect(JSON.stringify(await place.items())).not.toContain(idToken.split('.')[1]);
  await hintOf(agent);
  const [left, ...more] = await kept();
  expect(more).toEqual([]);
  expect(left?.expiresAt).toBeLessThanOrEqual(Date.now() + 8 * 3_600_000);
  await hintOf(other.agent, '/sign-out/everywhere');
  expect(await kept()).toEqual([]);
});

test('a sign-out without a hint still reaches the provider', async () => {
  const { agent } = await signIn();
  await place.withStore(async (store) => {
    for (const { record } of await kept()) await store.write([{ delete: record }]);
  });
  expect(await hintOf(agent)).toBeNull();
});

test('R116 the hint is not sent to another provider or for another client, and is sent again after a change back', async () => {
  const other = await startHostileProvider();
  const restartWith = async (app: object) => {
    writeFileSync(site.env.CONNECTED_APPS_FILE ?? '', JSON.stringify([app]));
    await site.restart();
  };
  const [one, two, three] = [await signIn(), await signIn(), await signIn()];
  await restartWith(other.app(site.url));
  expect(await signOut(one.agent)).toEqual({ at: `${other.issuer}/end_session`, hint: null });
  await restartWith(provider.app(site.url, { clientId: 'another-client' }));
  expect(await signOut(two.agent)).toEqual({ at: `${provider.issuer}/end_session`, hint: null });
  await restartWith(provider.app(site.url));
  expect(await signOut(three.agent)).toEqual({ at: `${provider.issuer}/end_session`, hint: three.idToken });
  expect(JSON.stringify(other.hits)).not.toContain(one.idToken.split('.')[1]);
  await other.close();
});
