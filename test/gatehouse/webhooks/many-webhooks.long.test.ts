/** Every webhook gets its message, even if there are more webhooks than fit into one page of a list. */
import { test } from 'vitest';
import { signIn, startSite } from '../../support/gatehouse.ts';
import { until } from '../../support/until.ts';
import { openStorageOf } from '../grants/storage-access.ts';
import { createAdministrator } from '../relay/service.ts';

test('delivers to the newest and the oldest of 201 webhooks', async () => {
  const site = await startSite();
  const storage = await openStorageOf(site);
  try {
    const admin = await createAdministrator(site, storage);
    const ids: string[] = [];
    for (let index = 0; index < 201; index += 1) {
      const webhook = { url: `${site.sandbox.platformUrl}/hook/${index}`, events: ['connection.created'] };
      ids.push(String((await admin.call('POST', '/webhooks', webhook)).json.id));
    }

    await signIn(site);

    for (const id of [ids.at(-1), ids[0]]) {
      const readMessages = async () => (await admin.call('GET', `/webhooks/${id}/messages`)).json.items as unknown[];
      await until(async () => (await readMessages()).length > 0);
    }
  } finally {
    await storage.close();
    await site.close();
  }
});
