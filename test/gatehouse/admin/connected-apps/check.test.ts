/** The check of apps by API, page and command, against the sandbox. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CHECKS, type Finding } from '../../../../src/gatehouse/connected-apps/finding.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { getJson, sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../../../support/send-request.ts';
import { runCommand } from '../../../support/terminal.ts';

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite({
    apps: (at) => [
      sandboxApp(at, 'platform'),
      sandboxApp(at, 'second', {
        clientSecret: { env: 'WRONG_SECRET' },
        callbackUrls: ['https://elsewhere.example.com/oauth/callback/second'],
      }),
      // The client `test-platform`, but with the callback URL of another id, which is not registered.
      {
        ...sandboxApp(at, 'platform', { callbackUrls: [`${at.url}/oauth/callback/pushed`], par: 'required' }),
        id: 'pushed',
      },
    ],
    env: { WRONG_SECRET: 'not-the-secret-that-is-registered', ADMIN_APP: 'platform' },
  });
  ({ agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' }));
});
afterAll(() => site.close());

async function check(id: string) {
  const { json } = await getJson(agent, `${site.url}/session`);
  const response = await sendRequest(`${site.url}/admin/api/connected-apps/${id}/check`, {
    method: 'POST',
    headers: {
      ...ACCEPT_JSON,
      ...JSON_BODY,
      cookie: agent.cookies.header(site.url),
      'x-csrf-token': String(json.csrfToken),
    },
    body: '{}',
  });
  return {
    status: response.status,
    json: JSON.parse(response.body) as { ok: boolean; findings: Finding[]; code?: string },
  };
}

const gatehouse = (...args: string[]) => runCommand(args, site.env);

describe('by API', () => {
  test('an app without problems that gets refresh tokens', async () => {
    const { status, json } = await check('platform');
    expect([status, json.ok]).toEqual([200, true]);
    const results = Object.fromEntries(json.findings.map(({ check: name, result }) => [name, result]));
    expect(Object.keys(results)).toEqual(Object.keys(CHECKS));
    expect(results).toMatchObject({ client_authentication: 'passed', refresh_token: 'passed', platform: 'passed' });
  });

  test('reports a wrong secret and a missing callback URL, each with its field', async () => {
    const { json } = await check('second');
    expect(json.ok).toBe(false);
    expect(json.findings.filter(({ result }) => result === 'failed').map(({ pointer }) => pointer)).toEqual([
      '#/callbackUrls',
      '#/clientSecret',
    ]);
    expect(JSON.stringify(json)).not.toContain('not-the-secret');
  });

  test('RFC 9126 reports a refused pushed request as a finding', async () => {
    const { status, json } = await check('pushed');
    expect([status, json.findings.map(({ check: name }) => name)]).toEqual([200, Object.keys(CHECKS)]);
    const problems = json.findings.filter(({ result }) => result === 'failed');
    expect(problems.map(({ check: name, pointer }) => [name, pointer])).toEqual([
      ['callback_registered', '#/callbackUrls'],
    ]);
  });

  test('an unknown app', async () => {
    expect(await check('nobody')).toMatchObject({ status: 404, json: { code: 'not_found' } });
  });
});

test('by page: each finding in words with what to do, also for other administrators', async () => {
  const app = await agent.get(`${site.url}/admin/connected-apps/platform`);
  const page = await agent.submit(app, {}, { button: 'Check now' });
  expect([page.status, new URL(page.url).pathname]).toEqual([200, '/admin/connected-apps/platform/check']);
  expect(page.body).toContain('No problems found');

  const checkPage = await agent.get(`${site.url}/admin/connected-apps/pushed/check`);
  const withProblem = await agent.submit(checkPage, {}, { button: 'Check now' });
  expect(withProblem.body).toContain('1 problem found');
  expect(withProblem.body).toContain('character by character, and compare the client ID');
  expect((await agent.get(withProblem.url)).body).toContain('1 problem found');
  expect((await agent.get(`${site.url}/admin/connected-apps/nobody/check`)).status).toBe(404);
});

describe('from a terminal', () => {
  test('doctor: all apps, one app, and an exit status that scripts can use', async () => {
    const all = await gatehouse('doctor', '--json');
    expect(all.status).toBe(1);
    expect(JSON.parse(all.stdout).map(({ app, ok }: { app: string; ok: boolean }) => [app, ok])).toEqual([
      ['platform', true],
      ['second', false],
      ['pushed', false],
    ]);
    const one = await gatehouse('doctor', 'platform');
    expect(one.status).toBe(0);
    expect(one.stdout).toMatch(/^platform:\n {2}passed {7}App lists the callback URL of this server: /);
    expect(await gatehouse('doctor', 'nobody')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('"nobody"'),
    });
  });

  test('apps check: every fault with its position, without starting anything', async () => {
    const file = join(site.dataDirectory, '..', 'to-check.json');
    const validApp = sandboxApp(site, 'platform');
    writeFileSync(file, JSON.stringify([validApp]));
    expect(await gatehouse('apps', 'check', file)).toEqual({
      status: 0,
      stdout: `${file} is valid: platform.\n`,
      stderr: '',
    });
    const callbackUrls = ['https://other.example.com/oauth/callback/platform'];
    writeFileSync(file, JSON.stringify([{ ...validApp, callbackUrls }]));
    const ofOtherServer = await gatehouse('apps', 'check', file);
    const warning = `Warning: no user can use the app "platform" here: add ${site.url}/oauth/callback/platform to its callbackUrls.\n`;
    expect(ofOtherServer).toEqual({ status: 0, stdout: `${file} is valid: platform.\n${warning}`, stderr: '' });
    writeFileSync(file, JSON.stringify([{ ...validApp, callbackUrls: ['https://*.example.com/cb'], surprise: 1 }]));
    const invalid = await gatehouse('apps', 'check', file, '--json');
    expect(invalid.status).toBe(1);
    expect(JSON.parse(invalid.stdout)).toMatchObject({
      ok: false,
      faults: [expect.stringContaining('callbackUrls/0'), expect.stringContaining('"surprise"')],
    });
    expect(await gatehouse('apps', 'check', '/nowhere.json')).toMatchObject({ status: 78 });
    const google = { ...validApp, issuer: 'https://accounts.google.com', signIn: undefined };
    writeFileSync(file, JSON.stringify([google]));
    const withPreset = await gatehouse('apps', 'check', file);
    expect(withPreset).toMatchObject({ status: 0, stderr: '' });
    expect(withPreset.stdout).toContain(
      '- platform looks like Google, whose preset has parameters: {"access_type":"offline"}.',
    );
    const { presets } = JSON.parse((await gatehouse('apps', 'check', file, '--json')).stdout);
    expect(presets).toEqual([
      { app: 'platform', preset: 'Google', advice: expect.arrayContaining([expect.stringMatching(/^parameters: /)]) },
    ]);
  });
});
