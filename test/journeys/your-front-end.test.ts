/** The proxies of docs/your-front-end.md, unchanged except for the ports, and the functions that call through them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { disconnect } from '../gatehouse/grants/storage-access.ts';
import { createUserAgent, type UserAgent } from '../support/browserless.ts';
import { getJson, signIn } from '../support/gatehouse.ts';
import { parseForms } from '../support/html-forms.ts';
import { sendRaw } from '../support/raw-http.ts';
import { ROUTE_TABLE } from '../support/routes.ts';
import { ACCEPT_JSON, sendRequest } from '../support/send-request.ts';
import { runCommand } from '../support/terminal.ts';
import { until } from '../support/until.ts';
import { codeBlock, FRONT_ENDS, frontEndText, startFrontEnd } from './documented-front-end.ts';

interface DocumentedFunctions {
  callGatehouse(path: string): Promise<unknown>;
  postToGatehouse(path: string, body: object): Promise<unknown>;
}

/** The functions of the document, as a page at this URL would run them. */
function functionsAt(pageUrl: string, agent: UserAgent): DocumentedFunctions {
  const { origin } = new URL(pageUrl);
  const fetchAsPage = async (path: string, { method = 'GET', headers, body }: RequestInit = {}) => {
    const sentHeaders = Object.fromEntries(new Headers(headers));
    if (method === 'POST') sentHeaders.origin = origin;
    const page = await agent.request(origin + path, {
      method,
      headers: sentHeaders,
      ...(body && { body: String(body) }),
    });
    return new Response(page.body, { status: page.status, headers: page.headers });
  };
  const code = codeBlock('js gatehouse.js').replaceAll(/^export /gm, '');
  const run = new Function('fetch', 'location', `${code} return { callGatehouse, postToGatehouse };`);
  return run(fetchAsPage, new URL(pageUrl));
}

describe.each(Object.entries(FRONT_ENDS))('%s', (_name, frontEnd) => {
  test('a page of the site signs users in, reads their thread, sends a POST, connects again and signs out', async () => {
    const { site, url } = await startFrontEnd(frontEnd);
    const agent = createUserAgent();
    const { callGatehouse, postToGatehouse } = functionsAt(`${url}/?board=1#top`, agent);

    const refusal = await callGatehouse('/threads/current').catch((error: unknown) => error);
    expect(refusal).toMatchObject({
      message: 'Sign in first',
      code: 'sign_in_required',
      status: 401,
      retryAfter: null,
      detail: expect.stringContaining('Sign in and try again'),
    });

    const { connectUrl } = refusal as { connectUrl: string };
    const { page } = await signIn({ url: '' }, undefined, { agent, path: connectUrl });
    expect([page.url, page.body]).toEqual([`${url}/?board=1#top`, expect.stringContaining('The site')]);
    expect(page.visited).toContainEqual(expect.stringMatching(`^${url}/gatehouse/oauth/callback/platform`));
    // Gatehouse prints this URL at its start.
    expect((await agent.get(`${url}/gatehouse`)).body).toContain('Sign out');

    expect(await callGatehouse('/threads/current')).toMatchObject({ thread: { author: { name: 'Uma Okafor' } } });
    expect(await postToGatehouse('/bin', { bins: ['45717360'] })).toMatchObject({ results: [{ bin: '45717360' }] });

    site.sandbox.faults.set({ listener: 'platform', kind: 'response', status: 404, body: {} });
    await expect(callGatehouse('/threads/current')).rejects.toMatchObject({
      message: 'Status 404',
      status: 404,
      connectUrl: undefined,
    });

    await disconnect({ url: `${url}/gatehouse` }, agent);
    await expect(callGatehouse('/threads/current')).rejects.toMatchObject({
      code: 'not_connected',
      connectUrl: `${url}/gatehouse/connections/platform?return_to=%2F%3Fboard%3D1%23top`,
    });

    const { json } = await getJson(agent, `${url}/gatehouse/session`);
    const form = codeBlock('html').replace('the csrfToken of /session', String(json.csrfToken));
    await agent.submit({ ...page, forms: parseForms(form) });
    expect(await callGatehouse('/session')).toEqual({ signedIn: false });
  });
});

test('the Express site is at most twenty lines long, and forwards everything that a proxy must', async () => {
  expect(codeBlock(`js ${FRONT_ENDS.express.file}`).trim().split('\n').length).toBeLessThanOrEqual(20);
  const { site, url } = await startFrontEnd(FRONT_ENDS.express);
  const { agent } = await signIn({ url: `${url}/gatehouse` });
  const cookie = agent.cookies.header(url);
  const readThread = () => sendRequest(`${url}/gatehouse/threads/current`, { headers: { ...ACCEPT_JSON, cookie } });

  // Gatehouse sees the real address of the client, not the one in X-Forwarded-For.
  const headers = { ...ACCEPT_JSON, 'x-forwarded-for': '203.0.113.7', authorization: 'Bearer of-nobody' };
  expect((await sendRequest(`${url}/gatehouse/admin/api/users`, { headers })).status).toBe(401);
  const readRefusedAddresses = async () => {
    const { stdout } = await runCommand(['audit', 'export', '--json'], site.env);
    const refusals = stdout.split('\n').filter((line) => line.includes('admin.refused'));
    return refusals.map((line) => JSON.parse(line).address);
  };
  await until(async () => (await readRefusedAddresses()).length > 0);
  expect(await readRefusedAddresses()).toEqual(['127.0.0.1']);

  // A client may use HTTP/1.0, which has no chunks, as nginx does by default.
  site.sandbox.faults.set({ listener: 'platform', kind: 'huge', bytes: 100_000, times: 1 });
  const response = await sendRaw(
    url,
    `GET /gatehouse/threads/current HTTP/1.0\r\nAccept: application/json\r\nCookie: ${cookie}\r\n\r\n`,
  );
  expect([response.status, response.headers.has('transfer-encoding')]).toEqual([200, false]);
  expect(JSON.parse(response.rest).length).toBeGreaterThan(90_000);

  // A truncated response must not look complete.
  site.sandbox.faults.set({ listener: 'platform', kind: 'reset', when: 'after_headers', times: 1 });
  await expect(readThread()).rejects.toThrow();
  expect((await readThread()).status).toBe(200);

  await site.close();
  expect((await readThread()).status).toBe(502);
});

test('the document lists all paths of Gatehouse except the start page, for a PUBLIC_URL without a path', () => {
  const [, paragraph = ''] = /^If `PUBLIC_URL` has no path, ([\s\S]*?)\. /m.exec(frontEndText) ?? [];
  const documentedPaths = [...paragraph.matchAll(/`(\/\S+)`/g)].map(([, path = '']) => path);
  const covers = (path: string, pattern: string) => pattern === path || pattern.startsWith(`${path}/`);
  const patterns = [...ROUTE_TABLE.map(([, pattern]) => pattern), '/assets/style.css'];

  const missing = patterns.filter((pattern) => !documentedPaths.some((path) => covers(path, pattern)));
  expect(missing).toEqual(['/']);
  const outdated = documentedPaths.filter((path) => !patterns.some((pattern) => covers(path, pattern)));
  expect(outdated).toEqual([]);
});

test('the nginx lines are those of the tutorial', () => {
  const tutorial = readFileSync(join(import.meta.dirname, '../../docs/tutorial.md'), 'utf8');
  const lines = (codeBlock('nginx').match(/.+/g) ?? []).map((line) => line.trim()).join('\n');
  expect(lines).not.toBe('');
  expect(tutorial.replaceAll(/^ +/gm, '')).toContain(lines);
});
