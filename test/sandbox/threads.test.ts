/** Documents, spreadsheets and chats of a user, and the page that the `link` of each opens. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  createBrowser,
  type ForeignClient,
  openConsole,
  PASSWORD,
  scriptsOf,
  startForeignClient,
} from './foreign-client.ts';

interface Document {
  thread: { type: string; title: string; link: string };
}

let client: ForeignClient;
let accessToken: string;
const browser = createBrowser();

beforeAll(async () => {
  client = await startForeignClient();
  accessToken = (await client.signIn({ browser, scope: 'openid platform_full_access' })).access_token;
});
afterAll(() => client.sandbox.close());

const call = async (path: string, body?: object) => {
  const response = await fetch(`${client.sandbox.platformUrl}/1/threads/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${accessToken}`, 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return (await response.json()) as Document & Record<string, Document>;
};

it('a user has a document, a spreadsheet and a chat, and the link of each opens its page', async () => {
  const recent = Object.values(await call('recent')).map(({ thread }) => thread);
  expect(recent.map(({ type }) => type).sort()).toEqual(['chat', 'document', 'spreadsheet']);
  for (const { title, link } of recent) {
    const page = await browser.get(link);
    expect([page.status, page.body]).toEqual([200, expect.stringContaining(`<h1>${title}</h1>`)]);
    expect(page.body.match(/<h1/g)).toHaveLength(1);
  }
});

it('the page requires sign-in, and shows a document only to users who share it', async () => {
  const { link } = (await call('current')).thread;
  const otherBrowser = createBrowser();
  const refused = await otherBrowser.submit(await otherBrowser.get(link), {
    login: 'second@example.test',
    password: PASSWORD,
  });
  expect([refused.status, refused.body.includes('not shared with you')]).toEqual([404, true]);

  const ownerBrowser = createBrowser();
  const shown = await ownerBrowser.submit(await ownerBrowser.get(link), {
    login: 'user@example.test',
    password: PASSWORD,
  });
  expect([shown.status, shown.body.includes('Where we are')]).toEqual([200, true]);
});

it('a link does not reveal without a session whether its document exists', async () => {
  const { link } = (await call('current')).thread;
  const { platformUrl, issuer } = client.sandbox;
  for (const url of [link, `${platformUrl}/nothinghere`]) {
    const { status, headers } = await fetch(url, { redirect: 'manual' });
    expect([status, headers.get('location')]).toEqual([303, url.replace(platformUrl, `${issuer}/threads`)]);
  }
  expect((await fetch(`${platformUrl}/favicon.ico`)).status).toBe(404);
  expect((await browser.get(`${platformUrl}/nothinghere`)).status).toBe(404);
});

it('outside their networks, a user must sign in again and is refused', async () => {
  const { link } = (await call('current')).thread;
  const owner = createBrowser();
  const login = { login: 'user@example.test', password: PASSWORD };
  await owner.submit(await owner.get(link), login);
  const admin = await openConsole(client);
  const saveNetworks = async (networks: string) =>
    admin.browser.submit(await admin.open('/users/sbx-00u1'), { networks }, { button: 'Save' });
  await saveNetworks('192.0.2.0/24');
  const outside = await owner.get(link);
  expect(outside.body).not.toContain('Where we are');

  const refused = await owner.submit(outside, login);
  expect([refused.status, refused.body.includes('Not allowed from here')]).toEqual([403, true]);

  await saveNetworks('127.0.0.0/8');
  expect((await owner.get(link)).body).toContain('Where we are');

  await saveNetworks('');
});

it('the page removes scripts and forms from a document', async () => {
  const content = '<p onclick="x()">Text</p><script>x()</script><form action="/console"><button>Press</button></form>';
  const { thread } = await call('new-document', { title: 'Bold <b>', content });
  const { body } = await browser.get(thread.link);
  expect(body).toContain('<h1>Bold &lt;b&gt;</h1>');
  expect(body).toContain('<p>Text</p>');
  expect(scriptsOf({ body })).toEqual(['back.js']);
  expect(body).not.toMatch(/x\(\)|<form|onclick/);
});
