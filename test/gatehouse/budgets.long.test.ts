/** R137: routes whose budget says that they cost nothing cost nothing, on both storages. */
import { describe, expect, test } from 'vitest';
import { COSTS_NOTHING } from '../../src/shared/http/route-table.ts';
import type { StoreKind } from '../support/fleet.ts';
import { startSite } from '../support/gatehouse.ts';
import { skipIfMissing } from '../support/missing.ts';
import { recordOutbound } from '../support/outbound-recorder.ts';
import { missingRedis } from '../support/redis-server.ts';
import { type ListedRoute, listed, ROUTE_TABLE } from '../support/routes.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, sendRequest } from '../support/send-request.ts';
import { createTestStorage } from '../support/test-storage.ts';
import { until } from '../support/until.ts';

const FREE = ROUTE_TABLE.filter((route) => route[4]?.budget === COSTS_NOTHING).map(listed);
const nameOf = ({ method, pattern }: ListedRoute) => `${method} ${pattern}`;

describe.for<StoreKind>(['SQLite', 'Redis'])('R137 on %s', (kind) => {
  const CALLS = 50;

  test('a route that costs nothing causes no write, no call and no audit entry', async (context) => {
    skipIfMissing(context, kind === 'Redis' ? missingRedis : undefined);
    const storage = await createTestStorage(kind);
    const site = await startSite({ env: storage.env });
    const sent = recordOutbound();
    try {
      const ports = [site.sandbox.issuer, site.sandbox.platformUrl, site.sandbox.binServiceUrl].map((url) =>
        Number(new URL(url).port),
      );
      const call = ({ method, path }: ListedRoute, headers: Record<string, string>) =>
        sendRequest(site.url + path, { method, headers, ...(method === 'POST' && { body: '' }) });
      // The first response with the key set makes the key, and a scheduled task notes each app once.
      for (const route of FREE) await call(route, ACCEPT_JSON);
      await until(async () => JSON.stringify(await storage.items()).includes('app-registration:'));
      const audited = () => site.logs().filter((line) => line.includes('"audit":'));
      const auditedBefore = audited();
      for (const route of FREE) {
        const before = await storage.items();
        for (let count = 0; count < CALLS; count += 1) {
          const { status } = await call(route, { ...(count % 2 === 0 ? ACCEPT_JSON : ACCEPT_HTML), ...FORM_BODY });
          expect(status, nameOf(route)).toBeLessThan(400);
        }
        expect(await storage.items(), nameOf(route)).toEqual(before);
      }
      expect(sent.sentTo(ports)).toBe('');
      expect(audited()).toEqual(auditedBefore);
    } finally {
      sent.stop();
      await site.close();
      await storage.dispose();
    }
  });
});
