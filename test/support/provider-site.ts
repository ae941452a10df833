/** Gatehouse with a simulated provider that says anything of its user. */
import { afterAll } from 'vitest';
import { createUserAgent, type Page, type UserAgent } from './browserless.ts';
import { getJson, startWithoutSandbox, type TestGatehouse } from './gatehouse.ts';
import { freePort } from './ports.ts';
import { startProviderSimulator } from './provider-simulator.ts';
import { IDENTITY_PROVIDERS } from './providers/identity.ts';
import type { Json, Profile } from './providers/profile.ts';

// Each site waits a second for its last requests, so all are closed together.
const opened: { close(): Promise<void> }[] = [];
afterAll(() => Promise.all(opened.map((resource) => resource.close())));

export interface ProviderSite extends TestGatehouse {
  /** Signs in a user of whom the ID token and userinfo say this. */
  signIn(claims: Json, userinfo?: Json): Promise<{ agent: UserAgent; page: Page; session: Json }>;
}

/** Gatehouse with these settings and the app of this preset, as the only one that signs users in. */
export async function startWithProvider(
  id: string,
  env: Record<string, string>,
  changes: Json = {},
): Promise<ProviderSite> {
  const profile: Profile = { ...(IDENTITY_PROVIDERS.find(({ preset }) => preset === id) as Profile) };
  const defaultClaims = profile.claims;
  const simulator = await startProviderSimulator(profile);
  opened.push(simulator);
  const port = await freePort();
  const apps = [{ ...simulator.app(`http://127.0.0.1:${port}`), ...changes }];
  const site = await startWithoutSandbox({ port, apps, env: { INTERNAL_HOSTS: '127.0.0.1,localhost', ...env } });
  opened.push(site);
  return {
    ...site,
    async signIn(claims, userinfo = {}) {
      profile.claims = { ...defaultClaims, ...claims };
      profile.userinfo = userinfo;
      const agent = createUserAgent();
      const page = await agent.get(`${site.url}/sign-in`);
      return { agent, page, session: (await getJson(agent, `${site.url}/session`)).json };
    },
  };
}
