/** Kinds of providers that cannot be used: each fails with the cause that `docs/providers.md` names. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserAgent, type UserAgent } from '../support/browserless.ts';
import { getJson, sandboxApp, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { type ProviderSimulator, startProviderSimulator } from '../support/provider-simulator.ts';
import { LIFETIME_SECONDS, UNSUPPORTED } from '../support/providers/unsupported.ts';
import { advanceClock } from '../support/test-clock.ts';

const DOCUMENT = readFileSync(join(import.meta.dirname, '../../docs/providers.md'), 'utf8');
const [, documented = ''] = /^## Not supported\n([\s\S]*?)^## /m.exec(DOCUMENT) ?? [];
/** The first and the last cell of each row. */
const rows = [...documented.matchAll(/^\| (.+?) \|.*\| `(\w+)` \|$/gm)].map(([, kind, cause]) => ({ kind, cause }));

let site: TestSite;
const simulators: ProviderSimulator[] = [];
const idOf = (position: number) => `unsupported-${position}`;

beforeAll(async () => {
  for (const { profile } of UNSUPPORTED) simulators.push(await startProviderSimulator(profile));
  site = await startSite({
    env: { ADMIN_APP: 'platform', INTERNAL_HOSTS: '127.0.0.1,localhost' },
    apps: ({ url, ...urls }) => [
      sandboxApp({ url, ...urls }, 'platform'),
      ...simulators.map(({ app }, position) => ({
        ...app(url),
        id: idOf(position),
        callbackUrls: [`${url}/oauth/callback/${idOf(position)}`],
      })),
    ],
  });
});
afterAll(async () => {
  await site.close();
  for (const simulator of simulators) await simulator.close();
});

/** Signs in, and presses the button of the page that a provider without redirects shows. */
async function signInWith(agent: UserAgent, app: string): Promise<void> {
  const page = await agent.get(`${site.url}/sign-in?app=${app}`);
  if (page.body.includes('<title>Provider</title>')) await agent.submit(page, {});
}

async function causeOf(app: string): Promise<string | undefined> {
  const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
  const { json } = await getJson(agent, `${site.url}/admin/api/sign-ins`);
  const items = json.items as { app: string; cause: { code: string } | null }[];
  return items.find((item) => item.app === app)?.cause?.code;
}

test('docs/providers.md lists these kinds, with their causes', () => {
  expect(rows).toEqual(UNSUPPORTED.map(({ kind, cause }) => ({ kind, cause })));
});

test.each(UNSUPPORTED.map((unsupported, position) => [unsupported.kind, unsupported, position] as const))(
  'a provider that %s fails with its cause',
  async (_kind, { cause, failsAt }, position) => {
    const app = idOf(position);
    const agent = createUserAgent();
    await signInWith(agent, app);
    const { json: session } = await getJson(agent, `${site.url}/session`);
    expect(session.signedIn).toBe(failsAt === 'refresh');
    if (failsAt === 'sign-in') {
      expect(await causeOf(app)).toBe(cause);
      return;
    }
    expect((await getJson(agent, `${site.url}/threads/current?app=${app}`)).status).toBe(200);
    advanceClock(LIFETIME_SECONDS + 1);
    const { status, json } = await getJson(agent, `${site.url}/threads/current?app=${app}`);
    expect([status, json.connectUrl]).toEqual([503, `${site.url}/connections/${app}`]);
    const { json: listed } = await getJson(agent, `${site.url}/connections`);
    const connections = listed.items as { app: string; health: string; cause: string }[];
    expect(connections.find((connection) => connection.app === app)).toMatchObject({ health: 'unverified', cause });
  },
);
