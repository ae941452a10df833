/** Runs the example calls of "Test a call" in their languages against Gatehouse. */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { exampleCalls } from '../../../../src/gatehouse/admin/policy/example-calls.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { decode } from '../../../support/html-forms.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { LONG_TIMEOUT } from '../../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../../grants/storage-access.ts';
import { type Administrator, assertionOf, createAdministrator } from '../../relay/service.ts';

const run = promisify(execFile);
let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let administrator: UserAgent;
let cookie: string;
let user: string;
let serviceAccount: string;
let relayToken: { id: string; token: string };
let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'example-calls-'));
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent: administrator } = await signIn(site, 'admin@example.test'));
  const { agent } = await signIn(site);
  cookie = agent.cookies.header(site.url);
  user = (await sessionOf(site, agent)).userId;
  relayToken = await admin.createRelayToken({ name: "It's reports", assertUser: true, fullScope: true });
  // The sandbox's platform takes any access token as an API token.
  const { accessToken } = await storage.readGrant(user);
  const account = { name: 'Nightly', app: 'platform', apiToken: accessToken };
  serviceAccount = String((await admin.call('POST', '/service-accounts', account)).json.id);
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
  rmSync(directory, { recursive: true, force: true });
});

const COMMANDS = {
  curl: (file: string) => ['sh', file],
  typescript: (file: string) => [process.execPath, '--no-warnings', file],
  python: (file: string) => ['/usr/bin/python3', file],
} as const;
type Language = keyof typeof COMMANDS;
const LANGUAGES = Object.keys(COMMANDS) as Language[];

/** Runs the example with the token and proofs in its environment, and returns its output. */
async function outputOf(language: Language, code = '', proofs: Record<string, string> = {}): Promise<string> {
  expect(code).not.toContain(relayToken.token);
  const file = join(directory, language === 'typescript' ? 'call.mts' : 'call');
  writeFileSync(file, code);
  const [command = '', ...options] = COMMANDS[language](file);
  const env = { PATH: process.env.PATH, RELAY_TOKEN: relayToken.token, ...proofs };
  return (await run(command, options, { env, ...LONG_TIMEOUT })).stdout;
}

/** Reads the examples on the page of an allowed call. */
async function examplesFor(
  question: Record<string, string>,
): Promise<Record<Language | 'assertion' | 'cookieName', string | undefined>> {
  const fields = { token: relayToken.id, scope: 'threads:read', app: 'platform', address: '127.0.0.1', ...question };
  const { body } = await administrator.get(`${site.url}/admin/policy?${new URLSearchParams(fields)}`);
  expect(/id="result-title">(.*?)<\/h2>/s.exec(body)?.[1]).toContain('Allowed');
  const codes = [...body.matchAll(/<code data-copy-source>(.*?)<\/code>/gs)].map(([, html = '']) => decode(html));
  const [curl, typescript, python] = codes.slice(-3);
  // The first code asks for the relay token.
  const assertion = codes.length === 5 ? codes[1] : undefined;
  const cookieName = /the value of the cookie <code>(.*?)<\/code>/.exec(body)?.[1];
  return { curl, typescript, python, assertion, cookieName };
}

const missing = (program: string) => (spawnSync(program, ['--version']).status === 0 ? undefined : program);
const MISSING = { curl: missing('curl'), typescript: undefined, python: missing('/usr/bin/python3') };

describe('the shell command that gets an assertion', () => {
  beforeEach((context) => skipIfMissing(context, missing('bash') ?? MISSING.curl));

  test.each(['sh', 'bash'])('works with the curl command in %s', async (shell) => {
    const { assertion, cookieName, curl } = await examplesFor({ user });
    const cookieValue = new RegExp(`${cookieName}=([^;]+)`).exec(cookie)?.[1] ?? '';
    const scriptFile = join(directory, 'shell');
    const cookieFile = join(directory, 'session');
    // The script reads the value of the cookie from its standard input.
    writeFileSync(scriptFile, `exec < '${cookieFile}'\n${assertion}\n${curl}`);
    writeFileSync(cookieFile, `${cookieValue}\n`);

    const env = { PATH: process.env.PATH, RELAY_TOKEN: relayToken.token };
    expect((await run(shell, [scriptFile], { env, ...LONG_TIMEOUT })).stdout).toMatch(/"thread"/);
  });

  test('is omitted if the call needs no assertion', async () => {
    expect((await examplesFor({ serviceAccount })).assertion).toBeUndefined();
    expect((await examplesFor({ proof: 'none', user })).assertion).toBeUndefined();
  });

  test('uses the cookie name of HTTPS', () => {
    const call = { scope: 'threads:read', app: 'a', userId: undefined, serviceAccount: undefined } as const;
    const { assertion } = exampleCalls('https://g.example', {
      ...call,
      proof: 'assertion',
      narrowingUnavailable: false,
    });
    expect(assertion?.cookie).toBe('__Host-gatehouse');
  });
});

describe.each(LANGUAGES)('in %s', (language) => {
  beforeEach((context) => skipIfMissing(context, MISSING[language]));
  const noProof = async () => ({});
  const userAssertion = async () => ({ ASSERTION: await assertionOf(site, cookie) });
  const CASES: [
    scope: string,
    question: () => Record<string, string>,
    proof: () => Promise<Record<string, string>>,
    expectedOutput: RegExp,
  ][] = [
    ['threads:read', () => ({ proof: 'none', user }), noProof, /"thread"/],
    ['threads:read', () => ({ user: 'user@example.test' }), userAssertion, /"thread"/],
    ['threads:read', () => ({ serviceAccount }), noProof, /"thread"/],
    ['bin:read', () => ({ app: '' }), noProof, /"scheme":"visa"/],
    ['connections:read', () => ({ proof: 'none' }), noProof, /"health":"active"/],
    ['connections:read', () => ({ proof: 'none', user }), noProof, /"health":"active"/],
    ['connections:read', () => ({ user }), userAssertion, /"health":"active"/],
    ['connect_links:create', () => ({ proof: 'none', user }), noProof, /"url":"http/],
    ['connect_links:create', () => ({ user }), userAssertion, /"url":"http/],
    ['token:exchange', () => ({ proof: 'none', user }), noProof, /"access_token":/],
    ['token:exchange', () => ({ user }), userAssertion, /"access_token":/],
    ['token:exchange', () => ({ user, narrowingUnavailable: 'yes' }), userAssertion, /"access_token":/],
  ];

  test.each(CASES)('%s works without changes', async (scope, question, proof, expectedOutput) => {
    const examples = await examplesFor({ scope, ...question() });
    expect(await outputOf(language, examples[language], await proof())).toMatch(expectedOutput);
  });

  test('quotes texts with quotation marks, line breaks and dollar signs', async () => {
    const hostileText = `a'b"c$(touch ${directory}/gone)\`d\`\${e}\\\n<f>`;
    const call = { scope: 'threads:read', app: hostileText, userId: undefined, serviceAccount: undefined } as const;
    const examples = exampleCalls(site.url, { ...call, proof: 'assertion', narrowingUnavailable: false });
    const printed = await outputOf(language, examples[language], { ASSERTION: 'none' });
    expect(printed).toContain('not_allowed');
    const linkExamples = exampleCalls(site.url, {
      ...call,
      scope: 'connect_links:create',
      proof: 'none',
      userId: hostileText,
      narrowingUnavailable: false,
    });
    expect(await outputOf(language, linkExamples[language])).toContain('invalid_request');
    expect(existsSync(join(directory, 'gone'))).toBe(false);
  });
});
