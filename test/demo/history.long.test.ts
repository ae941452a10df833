/** The demo's history fills every page of the administration, and is the same at every start. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createBinService } from '../../src/bin-lookup-service/service.ts';
import { clientOf, demoApps } from '../../src/demo/apps.ts';
import { writeHistory } from '../../src/demo/history.ts';
import { SEED } from '../../src/demo/people.ts';
import { REFUSED_REFERENCE } from '../../src/demo/visits.ts';
import { MENU } from '../../src/gatehouse/admin/menu.ts';
import { createAuditTrail } from '../../src/gatehouse/audit/trail.ts';
import { withNewStorage } from '../../src/gatehouse/commands/open-storage.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { loadConfig } from '../../src/shared/config/config.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import type { UserAgent } from '../support/browserless.ts';
import { type Demo, endDemos, startDemo } from '../support/demo.ts';
import { getJson, signIn } from '../support/gatehouse.ts';

interface Item {
  [name: string]: unknown;
}

describe('a running demo', () => {
  let demo: Demo;
  let agent: UserAgent;
  beforeAll(async () => {
    demo = await startDemo();
    await demo.program.printed('Ctrl+C');
    ({ agent } = await signIn(demo, 'admin@example.test', { path: '/admin' }));
  });
  afterAll(endDemos);
  const api = async (path: string) => (await getJson(agent, `${demo.url}/admin/api/${path}`)).json;
  const items = async (path: string) => (await api(path)).items as Item[];

  test.each(MENU.flatMap(({ tabs }) => tabs).filter(({ path }) => !['policy', 'docs'].includes(path)))(
    'has rows on the page $label',
    async ({ path }) => {
      const { body, status } = await agent.get(`${demo.url}/admin/${path}`);
      expect(status).toBe(200);
      expect(body).toMatch(/<tbody>\s*<tr|<dl class="facts"/);
    },
  );

  test('has changeable apps for users, an app for administrators in the file, and a passed check of each', async () => {
    const apps = await items('connected-apps');
    expect(apps.map(({ id, source, signIn }) => [id, source, signIn])).toEqual([
      ['platform', 'administration', { allow: 'everyone' }],
      ['staff', 'file', { allow: { claim: 'groups', values: ['gatehouse-admins'] } }],
      ['team', 'administration', undefined],
    ]);
    for (const { id } of apps) {
      const { lastCheck } = await api(`connected-apps/${id}`);
      expect(lastCheck, String(id)).toMatchObject({ failures: 0, warnings: 0 });
      const { findings } = lastCheck as { findings: { check: string; result: string }[] };
      // There is no preset for the sandbox, and it has no TLS.
      expect(findings.filter(({ result }) => result !== 'passed').map(({ check }) => check)).toEqual(['preset', 'tls']);
    }
  });

  test('counts sign-ins, refreshes and relay calls on every working day of the month, and in the last day', async () => {
    const { intervals } = (await api('overview?period=month')) as {
      intervals: { at: string; counts: Record<string, number> }[];
    };
    const isWeekday = ({ at }: { at: string }) => ![0, 6].includes(new Date(at).getUTCDay());
    for (const { at, counts } of intervals.slice(4).filter(isWeekday)) {
      for (const name of ['sign_in.succeeded', 'refresh.succeeded', 'relay.succeeded']) {
        // Today may have only just begun.
        const minimum = at === intervals.at(-1)?.at ? 0 : 1;
        expect(counts[name] ?? 0, `${name} on ${at}`).toBeGreaterThanOrEqual(minimum);
      }
    }
    const total = (name: string) => intervals.reduce((sum, { counts }) => sum + (counts[name] ?? 0), 0);
    for (const name of ['sign_in.failed', 'sign_in.refused', 'refresh.failed', 'relay.failed', 'relay.refused']) {
      expect(total(name), name).toBeGreaterThan(0);
    }
    const day = (await api('overview')) as { intervals: { counts: Record<string, number> }[] };
    expect(day.intervals.filter(({ counts }) => (counts['refresh.succeeded'] ?? 0) > 0).length).toBeGreaterThan(20);
  });

  test('has failures with several causes, and the refused sign-in whose reference the terminal shows', async () => {
    const failed = await items('sign-ins?outcome=unsuccessful&limit=100');
    expect(new Set(failed.map(({ cause }) => JSON.stringify(cause))).size).toBeGreaterThan(4);
    expect(demo.program.stdout()).toContain(REFUSED_REFERENCE);
    const { body } = await agent.get(`${demo.url}/admin/sign-ins/${REFUSED_REFERENCE}`);
    expect(body).toContain('This user is disabled');
  });

  test('has connections that need reconnecting, and others that it refreshes', async () => {
    const broken = await items('connections?health=reconnect_needed');
    expect(broken.length).toBeGreaterThan(0);
    for (const connection of broken)
      expect(connection).toMatchObject({ cause: 'grant_refused', reason: 'invalid_grant' });
    expect((await items('connections?limit=100')).length).toBeGreaterThan(20);
  });

  test('has a webhook whose receiver responds with 503, and a client secret and a token that expire soon', async () => {
    const webhooks = await items('webhooks');
    expect(webhooks.length).toBe(2);
    const messages = await Promise.all(webhooks.map(({ id }) => items(`webhooks/${id}/messages`)));
    expect(JSON.stringify(messages)).toMatch(/"503"|503/);
    const within = (time: unknown, days: number) => {
      const daysLeft = (Date.parse(String(time)) - Date.now()) / 86_400_000;
      return daysLeft > 0 && daysLeft < days;
    };
    expect((await items('connected-apps')).some((app) => within(app.clientSecretExpiresAt, 8))).toBe(true);
    expect((await items('relay-tokens')).some(({ expiresAt }) => within(expiresAt, 14))).toBe(true);
  });
});

test('the history for one moment is the same at every start, except for keys and ids', async () => {
  const now = Date.UTC(2026, 10, 23, 15, 20);
  const write = async () => {
    const directory = mkdtempSync(join(tmpdir(), 'gatehouse-history-'));
    const apps = demoApps('http://127.0.0.1:3000');
    const clients = Object.values(apps).map(clientOf);
    const sandbox = await startSandbox({ clients, seed: SEED, binService: createBinService() });
    const env = {
      DATA_DIR: directory,
      ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
      PUBLIC_URL: 'http://127.0.0.1',
    };
    const source = { env, readFile: () => '' };
    const { values: config } = loadConfig(source);
    const receivers = { working: 'http://127.0.0.1/crm', failing: 'http://127.0.0.1/billing' };
    try {
      return await withNewStorage(source, async (storage) => {
        const started = performance.now();
        await writeHistory({ storage, config, sandbox, apps, receivers, now });
        const entries: string[] = [];
        for await (const { event, at, outcome, address } of createAuditTrail({
          store: storage.store,
          clock: () => now,
        }).export()) {
          entries.push(`${at} ${event} ${outcome ?? ''} ${address ?? ''}`);
        }
        return { entries, milliseconds: performance.now() - started };
      });
    } finally {
      await sandbox.close();
      rmSync(directory, { recursive: true, force: true });
    }
  };
  const [first, second] = [await write(), await write()];
  expect(first.entries.length).toBeGreaterThan(500);
  expect(second.entries).toEqual(first.entries);
});
