/** Every webhook gets its message, however many there are. */
import { test } from 'vitest';
import { signIn, startSite } from '../../support/gatehouse.ts';
import { until } from '../../support/until.ts';
import { openStorageOf } from '../grants/storage-access.ts';
import { createAdministrator } from '../relay/service.ts';

test('delivers to the oldest of 201 webhooks', async () => {
  const site = await startSite();
  const storage = await openStorageOf(site);
  try {
    const admin = await createAdministrator(site, storage);
    const ids: string[] = [];
    for (let at = 0; at < 201; at += 1) {
      const wanted = { url: `${site.sandbox.platformUrl}/hook/${at}`, events: ['connection.created'] };
      ids.push(String((await admin.call('POST', '/webhooks', wanted)).json.id));
    }
    await signIn(site);
    for (const id of [ids.at(-1), ids[0]]) {
      const messages = async () => (await admin.call('GET', `/webhooks/${id}/messages`)).json.items as unknown[];
      await until(async () => (await messages()).length > 0);
    }
  } finally {
    await storage.close();
    await site.close();
  }
});
