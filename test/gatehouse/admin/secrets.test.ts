/** Secrets: shown once and alone, with a line that tries them, and the end of the previous one. */
import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { linkOn, type Page, type UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { decode } from '../../support/html-forms.ts';
import { missingCurl, skipIfMissing } from '../../support/missing.ts';
import { sendRequest } from '../../support/send-request.ts';
import { createAdminToken } from '../../support/terminal.ts';
import { LONG_TIMEOUT } from '../../support/until.ts';
import { bearer } from '../relay/service.ts';

const run = promisify(execFile);
let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(() => site?.close());

const open = (path: string) => agent.get(`${site.url}/admin/${path}`);
const textsOn = ({ body }: Page) =>
  [...body.matchAll(/data-copy-source>([^<]+)</g)].map(([, text = '']) => decode(text));

const RELAY = { name: 'Nightly', scopes: 'bin:read', expiry: '30' };
const HOOK = { url: 'http://127.0.0.1:1/hook', events: 'connection.created' };
const KINDS = [
  ['relay-tokens', RELAY, 'Create relay token'],
  ['admin-tokens', { name: 'Deploy', scope: 'read', expiry: '30' }, 'Create admin token'],
  ['webhooks', HOOK, 'Create webhook'],
] as const;
const create = async (path: string, fields: Record<string, string>, button: string) =>
  agent.submit(await open(`${path}/new`), fields, { button });

/** Runs the line in a shell, which reads the answers. */
const outputOf = async (line: string, answers: string[]): Promise<string> => {
  const input = answers.map((answer) => `'${answer}'`).join(' ');
  const script = `printf '%s\\n' ${input} | (${line})`;
  return (await run('sh', ['-c', script], { env: { PATH: process.env.PATH }, ...LONG_TIMEOUT })).stdout;
};

test.each(KINDS)(
  'R106 %s: the secret stands alone, and "I have stored it" leads to its record',
  async (path, fields, button) => {
    const created = await create(path, fields, button);
    const [secret = ''] = textsOn(created);
    expect(secret.length).toBeGreaterThan(40);
    expect(created.body.split(secret)).toHaveLength(2);
    expect(created.forms.filter(({ action }) => action.includes(path))).toEqual([]);
    const record = await agent.follow(created, 'I have stored it');
    expect([record.status, record.url]).toEqual([200, created.url.split('?')[0]]);
    expect(record.body).not.toContain(secret);
    expect((await agent.get(created.url)).body).not.toContain(secret);
  },
);

test('the line of a relay token calls the relay', async (context) => {
  skipIfMissing(context, missingCurl);
  const [secret = '', line = ''] = textsOn(await create(...(['relay-tokens', RELAY, 'Create relay token'] as const)));
  expect(line).not.toContain(secret);
  expect(await outputOf(line, [secret])).toContain('"scheme":"visa"');
  expect(await outputOf(line, [`${secret.slice(0, -1)}${secret.endsWith('x') ? 'y' : 'x'}`])).toContain('"status":401');
});

test('the line of a relay token that may name users lists their connections', async (context) => {
  skipIfMissing(context, missingCurl);
  const fields = { ...RELAY, scopes: 'connections:read', apps: 'platform', users: 'all', assertUser: 'yes' };
  const [secret = '', line = ''] = textsOn(await create('relay-tokens', fields, 'Create relay token'));
  expect(await outputOf(line, [secret])).toContain('"health":"active"');
});

test('the line of an admin token lists the connected apps', async (context) => {
  skipIfMissing(context, missingCurl);
  const [secret = '', line = ''] = textsOn(
    await create('admin-tokens', { name: 'Line', scope: 'read', expiry: '30' }, 'Create admin token'),
  );
  expect(await outputOf(line, [secret])).toContain('"id":"platform"');
});

test('the line of a webhook computes the signature of a message', async () => {
  const [secret = '', line = ''] = textsOn(await create('webhooks', HOOK, 'Create webhook'));
  const body = '{"type":"webhook.test","data":{"name":"J. Doe \\u00e9"}}';
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signature = createHmac('sha256', key).update(`msg_1.1700000000.${body}`).digest('base64');
  expect((await outputOf(line, [secret, 'msg_1', '1700000000', body])).trim()).toBe(signature);
});

test('the previous secret of a relay token works until it is ended', async () => {
  const created = await create('relay-tokens', RELAY, 'Create relay token');
  const [first = ''] = textsOn(created);
  const record = created.url.split('?')[0] ?? '';
  const rotated = await agent.submit(
    await agent.get(`${record}/rotate`),
    { overlapHours: '2' },
    { button: 'Create new secret' },
  );
  const [second = ''] = textsOn(rotated);
  expect(rotated.body).toMatch(/The previous one works until <time/);
  const statusOf = async (token: string) =>
    (await sendRequest(`${site.url}/relay/bin/45717360`, { headers: bearer(token) })).status;
  expect([await statusOf(first), await statusOf(second)]).toEqual([200, 200]);

  const page = await agent.follow(rotated, 'I have stored it');
  const question = await agent.follow(page, 'End it now');
  const ended = await agent.submit(question, {}, { button: 'End previous secret' });
  expect(ended.body).toContain('The previous secret no longer works.');
  expect(linkOn(ended, 'End it now')).toBeUndefined();
  expect([await statusOf(first), await statusOf(second)]).toEqual([401, 200]);
  const again = await agent.submit(await agent.get(question.url), {}, { button: 'End previous secret' });
  expect([again.status, again.body]).toEqual([400, expect.stringContaining('There is no previous secret')]);
});

test('the previous secret of a webhook is ended by the page and by the API', async () => {
  const token = await createAdminToken(site);
  const call = (path: string, body = '{}') =>
    sendRequest(`${site.url}/admin/api/webhooks/${path}`, {
      ...{ method: 'POST', body },
      headers: { ...bearer(token), 'content-type': 'application/json' },
    });
  const created = await create('webhooks', HOOK, 'Create webhook');
  const record = created.url.split('?')[0] ?? '';
  const id = record.split('/').at(-1);
  const rotate = async () =>
    agent.submit(await agent.get(`${record}/rotate`), { overlapHours: '24' }, { button: 'Create new secret' });
  await rotate();
  const ended = await agent.submit(
    await agent.follow(await agent.get(record), 'End it now'),
    {},
    { button: 'End previous secret' },
  );
  expect(linkOn(ended, 'End it now')).toBeUndefined();
  await rotate();
  expect(JSON.parse((await call(`${id}/end-overlap`)).body)).toMatchObject({ id, overlapEndsAt: null });
  expect((await call(`${id}/end-overlap`)).status).toBe(400);
});
