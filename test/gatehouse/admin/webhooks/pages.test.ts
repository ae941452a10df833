/** The pages of webhooks over HTTP: messages by state and as CSV, faults of the rotation, and unknown ids. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { type Receiver, startReceiver } from '../../../support/webhook-receiver.ts';
import { openStorageOf, type StorageAccess } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  site = await startSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
  receiver?.close();
});

const LIST = '/admin/webhooks';
const open = (path: string) => agent.get(site.url + path);
const createWebhook = async (path = '') => {
  const webhook = { url: receiver.url + path, events: ['connection.created'] };
  return (await admin.call('POST', '/webhooks', webhook)).json as { id: string; secret: string };
};

test('messages are filtered by state, and exported with the responses of the receiver', async () => {
  const { id, secret } = await createWebhook();
  for (const status of [200, 500, 503]) {
    receiver.setResponse(status, '=1+1');
    await admin.call('POST', `/webhooks/${id}/test`);
  }
  const rowsOn = (body: string) => body.match(/\/messages\/msg_\w+"/g)?.length;
  expect(rowsOn((await open(`${LIST}/${id}`)).body)).toBe(3);
  expect(rowsOn((await open(`${LIST}/${id}?state=failed`)).body)).toBe(2);
  expect((await open(`${LIST}/${id}?state=pending`)).body).toContain('No messages match');
  const csv = await open(`${LIST}/${id}?state=failed&format=csv`);
  expect(csv.headers.get('content-disposition')).toBe('attachment; filename="webhook-messages.csv"');
  const [, ...lines] = csv.body.trimEnd().split('\r\n');
  expect(lines).toEqual(['503', '500'].map((status) => expect.stringContaining(`"failed","${status}","1"`)));
  expect((await open(LIST)).body).toContain(`href="${LIST}/${id}"`);
  const webhooks = await open(`${LIST}?state=failing&format=csv`);
  expect(webhooks.body).toContain(`"${receiver.url}","${id}"`);
  for (const { body } of [csv, webhooks, await open(`${LIST}/${id}`)]) expect(body).not.toContain(secret);
});

test('a test form that is sent twice counts once, and the response is shown as text', async () => {
  const { id } = await createWebhook('/once');
  receiver.setResponse(200, '<script>alert(1)</script>');
  receiver.received.length = 0;
  const page = await open(`${LIST}/${id}`);
  const form = page.forms.find(({ action }) => action.endsWith('/test'));
  const body = new URLSearchParams([...(form?.fields ?? [])]);
  const send = () => agent.request(`${site.url}${form?.action}`, { method: 'POST', body });
  const [first, second] = [await send(), await send()];
  expect([first.status, second.status, receiver.received.length]).toEqual([200, 200, 1]);
  expect(first.body).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
  expect(first.body).not.toContain('<script>alert');
});

test('invalid hours are a fault of the rotation, and nothing is rotated', async () => {
  const { id } = await createWebhook('/rotation');
  receiver.setResponse(200, '');
  for (const overlapHours of ['', '-1', '721', '1.5']) {
    const page = await open(`${LIST}/${id}/rotate`);
    const refused = await agent.submit(page, { overlapHours }, { button: 'Create new secret' });
    expect([refused.status, refused.body]).toEqual([400, expect.stringContaining('id="overlapHours-fault"')]);
  }
  expect((await admin.call('GET', `/audit?event=webhook.rotated&target=${id}`)).json.items).toEqual([]);
});

test('webhooks with the same host are distinguished in the list and in the confirmation', async () => {
  const [first, second] = [await createWebhook('/alike'), await createWebhook('/alike')];
  const list = await open(`${LIST}?q=alike`);
  const question = await open(`${LIST}/remove?id=${first.id}&id=${second.id}`);
  for (const { id } of [first, second]) {
    expect(list.body).toContain(`>${id.slice(0, 8)}</code>`);
    expect(question.body).toContain(`<bdi>${new URL(receiver.url).origin} (${id.slice(0, 8)})</bdi>`);
  }
  const { json } = await admin.call('GET', `/audit?event=webhook.created&target=${first.id}`);
  expect(json.items).toMatchObject([{ target: { name: new URL(receiver.url).origin } }]);
});

test('unknown webhooks and messages have no page', async () => {
  const { id } = await createWebhook('/gone');
  for (const path of ['whAAAAAAAAAAA', `${id}/messages/msg_AAAAAAAAAAAAAAAAAAAAAA`, `${id}/messages/x`, 'remove']) {
    expect([path, (await open(`${LIST}/${path}`)).status]).toEqual([path, 404]);
  }
});
