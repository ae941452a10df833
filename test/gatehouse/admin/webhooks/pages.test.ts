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

const HOME = '/admin/webhooks';
const open = (path: string) => agent.get(site.url + path);
const make = async (path = '') => {
  const wanted = { url: receiver.url + path, events: ['connection.created'] };
  return (await admin.call('POST', '/webhooks', wanted)).json as { id: string; secret: string };
};

test('messages are narrowed by their state, and exported with the answers of the receiver', async () => {
  const { id, secret } = await make();
  for (const status of [200, 500, 503]) {
    receiver.setResponse(status, '=1+1');
    await admin.call('POST', `/webhooks/${id}/test`);
  }
  const rowsOn = (body: string) => body.match(/\/messages\/msg_\w+"/g)?.length;
  expect(rowsOn((await open(`${HOME}/${id}`)).body)).toBe(3);
  expect(rowsOn((await open(`${HOME}/${id}?state=failed`)).body)).toBe(2);
  expect((await open(`${HOME}/${id}?state=pending`)).body).toContain('No messages match');
  const csv = await open(`${HOME}/${id}?state=failed&format=csv`);
  expect(csv.headers.get('content-disposition')).toBe('attachment; filename="webhook-messages.csv"');
  const [, ...lines] = csv.body.trimEnd().split('\r\n');
  expect(lines).toEqual(['503', '500'].map((answer) => expect.stringContaining(`"failed","${answer}","1"`)));
  expect((await open(HOME)).body).toContain(`href="${HOME}/${id}"`);
  const webhooks = await open(`${HOME}?state=failing&format=csv`);
  expect(webhooks.body).toContain(`"${receiver.url}","${id}"`);
  for (const { body } of [csv, webhooks, await open(`${HOME}/${id}`)]) expect(body).not.toContain(secret);
});

test('while the secret is shown, the only way on is a link that confirms the copy', async () => {
  const wanted = { url: `${receiver.url}/copied`, events: 'connection.created' };
  const made = await agent.submit(await open(`${HOME}/new`), wanted, { button: 'Create webhook' });
  const path = new URL(made.url).pathname;
  const sends = ({ forms }: typeof made) => forms.filter(({ action }) => /\/(test|resend)$/.test(action)).length;
  expect([made.body.includes('whsec_'), sends(made)]).toEqual([true, 0]);
  expect(made.body).toMatch(new RegExp(`href="${path}">I have copied the secret<`));
  const tested = await agent.submit(await open(path), {}, { button: 'Send test message' });
  expect(tested.status).toBe(200);

  const rotated = await agent.submit(await open(path), { overlapHours: '1' }, { button: 'Create new secret' });
  expect([rotated.body.includes('whsec_'), sends(rotated)]).toEqual([true, 0]);
  expect(sends(await open(path))).toBe(2);
});

test('a test form that is sent twice counts once, and the response is shown as text', async () => {
  const { id } = await make('/once');
  receiver.setResponse(200, '<script>alert(1)</script>');
  receiver.received.length = 0;
  const page = await open(`${HOME}/${id}`);
  const form = page.forms.find(({ action }) => action.endsWith('/test'));
  const body = new URLSearchParams([...(form?.fields ?? [])]);
  const send = () => agent.request(`${site.url}${form?.action}`, { method: 'POST', body });
  const [first, again] = [await send(), await send()];
  expect([first.status, again.status, receiver.received.length]).toEqual([200, 200, 1]);
  expect(first.body).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
  expect(first.body).not.toContain('<script>alert');
});

test('invalid hours are a fault of the rotation: nothing is rotated, and links lead to the page of the webhook', async () => {
  const { id } = await make('/rotation');
  receiver.setResponse(200, '');
  for (let sent = 0; sent <= 50; sent += 1) await admin.call('POST', `/webhooks/${id}/test`);
  for (const overlapHours of ['', '-1', '721', '1.5']) {
    const refused = await agent.submit(await open(`${HOME}/${id}`), { overlapHours }, { button: 'Create new secret' });
    expect([refused.status, refused.body]).toEqual([400, expect.stringContaining('id="overlapHours-fault"')]);
    const own = new URL(`${HOME}/${id}`, site.url).href;
    for (const words of ['CSV', 'Next']) {
      const { url, status } = await agent.follow(refused, words);
      expect([url.split('?')[0], status]).toEqual([own, 200]);
    }
    const filtered = await agent.submit(refused, { state: 'failed' });
    expect([filtered.url, filtered.status]).toEqual([`${own}?state=failed`, 200]);
    expect((await agent.follow(filtered, 'Clear')).url.replace(/\?$/, '')).toBe(own);
  }
  expect((await admin.call('GET', `/audit?event=webhook.rotated&whom=${id}`)).json.items).toEqual([]);
});

test('webhooks with the same host are distinguished in the list and in the confirmation', async () => {
  const [one, other] = [await make('/alike'), await make('/alike')];
  const list = await open(`${HOME}?q=alike`);
  const question = await open(`${HOME}/remove?id=${one.id}&id=${other.id}`);
  for (const { id } of [one, other]) {
    expect(list.body).toContain(`>${id.slice(0, 8)}</code>`);
    expect(question.body).toContain(`<bdi>${new URL(receiver.url).origin} (${id.slice(0, 8)})</bdi>`);
  }
  const { json } = await admin.call('GET', `/audit?event=webhook.created&whom=${one.id}`);
  expect(json.items).toMatchObject([{ target: { name: new URL(receiver.url).origin } }]);
});

test('unknown webhooks and messages have no page', async () => {
  const { id } = await make('/gone');
  for (const path of ['whAAAAAAAAAAA', `${id}/messages/msg_AAAAAAAAAAAAAAAAAAAAAA`, `${id}/messages/x`, 'remove']) {
    expect([path, (await open(`${HOME}/${path}`)).status]).toEqual([path, 404]);
  }
});
