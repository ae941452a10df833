/** Every command on a page of the administration works, unchanged, on the running demo. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { MENU } from '../../src/gatehouse/admin/menu.ts';
import type { UserAgent } from '../support/browserless.ts';
import { type Demo, endDemos, ROOT, startDemo } from '../support/demo.ts';
import { getJson, signIn } from '../support/gatehouse.ts';

const DATASET = `BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName
457173,VISA,DEBIT,CLASSIC,BANK OF THE TEST,,,DK,DNK,DENMARK
`;

let demo: Demo;
let agent: UserAgent;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-demo-commands-'));
  writeFileSync(join(folder, 'bins.csv'), DATASET);
  // Replaces the download of a data set.
  writeFileSync(join(folder, 'curl'), '#!/bin/sh\nexit 0\n', { mode: 0o755 });
  demo = await startDemo();
  await demo.program.printed('Ctrl+C');
  ({ agent } = await signIn(demo, 'admin@example.test', { path: '/admin' }));
});
afterAll(async () => {
  await endDemos();
  rmSync(folder, { recursive: true, force: true });
});

async function commandsOf(path: string): Promise<string[]> {
  const { body } = await agent.get(`${demo.url}/admin/${path}`);
  return [...body.matchAll(/<code[^>]*>([^<]*npm run[^<]*)<\/code>/g)].map(([, command = '']) =>
    command.replaceAll('&quot;', '"').replaceAll('&amp;', '&').replaceAll('&#39;', "'"),
  );
}

async function run(command: string, env: Record<string, string | undefined> = {}) {
  // SANDBOX_PORT selects this demo among those of other tests.
  const { HOME, NODE_COMPILE_CACHE } = process.env;
  const demoEnv = {
    PATH: `${folder}:${process.env.PATH}`,
    HOME,
    NODE_COMPILE_CACHE,
    SANDBOX_PORT: demo.env.SANDBOX_PORT,
  };
  const child = spawn('sh', ['-c', command.replaceAll('bins.csv', join(folder, 'bins.csv'))], {
    cwd: ROOT,
    env: { ...demoEnv, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = new Promise((resolve) => child.on('close', resolve));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { status: await exited, stdout, stderr };
}

test('the commands of each page work', async () => {
  const paths = MENU.flatMap(({ tabs }) => tabs).map(({ path }) => path);
  const commands = new Set<string>();
  // Several rounds, because a page may show the next command only after the first one.
  for (let round = 0; round < 3; round += 1) {
    const commandsOfRound = new Set<string>();
    for (const path of paths) {
      for (const command of await commandsOf(path)) {
        if (commandsOfRound.has(command)) continue;
        commandsOfRound.add(command);
        const { status, stderr } = await run(command);
        expect({ command, status }, stderr).toEqual({ command, status: 0 });
        const notice = `Uses the settings of the running demo (${join('data', `demo-${demo.env.SANDBOX_PORT}`)}`;
        expect(stderr.split(notice).length - 1, stderr).toBe(command.endsWith('keys generate') ? 0 : 1);
        commands.add(/-- (\w+ \w+)/.exec(command)?.[1] ?? command);
      }
    }
  }
  expect([...commands]).toEqual(expect.arrayContaining(['keys rotate', 'bin import']));
  const { json } = await getJson(agent, `${demo.url}/admin/api/audit?event=bin_dataset.imported`);
  expect((json.items as unknown[]).length).toBeGreaterThan(0);
});

test.each(['--version', '--help', 'keys --help', 'keys generate'])(
  '%s needs no settings, and so does not mention the demo',
  async (args) => {
    const { status, stderr } = await run(`npm run -s gatehouse -- ${args}`);
    expect([status, stderr]).toEqual([0, '']);
  },
);

test('a command with its own settings does not use the demo', async () => {
  const directory = join(folder, 'real');
  const ENCRYPTION_KEYS = (await run('npm run -s gatehouse -- keys generate')).stdout.trim();
  const { status, stderr } = await run('npm run -s gatehouse -- keys status', { DATA_DIR: directory, ENCRYPTION_KEYS });
  expect(status, stderr).toBe(78);
  expect(stderr).toContain('set DATA_DIR to the folder that holds');
  expect(stderr.replaceAll(folder, '')).not.toContain('demo');
  expect(existsSync(directory)).toBe(false);
});

test('a command in production never uses the settings of a demo', async () => {
  const { status, stderr } = await run('npm run -s gatehouse -- keys status', { NODE_ENV: 'production' });
  expect(status).toBe(78);
  expect(stderr).toContain('ENCRYPTION_KEYS is required');
});

test('commands of the BIN lookup service work with the folder named in its document', async () => {
  const docs = readFileSync(join(ROOT, 'docs', 'bin-lookup-service.md'), 'utf8');
  const [, folderOfDemo = ''] = /`DATA_DIR=(\S+)` before them/.exec(docs) ?? [];
  expect(folderOfDemo).toBe('./data/demo-3001/bin-lookup-service');
  const DATA_DIR = folderOfDemo.replace('demo-3001', `demo-${demo.env.SANDBOX_PORT}`);
  const { status, stdout, stderr } = await run('npm run -s bin-lookup-service -- plan requests', { DATA_DIR });
  expect(status, stderr).toBe(0);
  expect(stdout).toBe('No plan requests.\n');
});

test('the folder of a killed demo does not count as a running demo', async () => {
  const file = join(demo.directory, 'settings.env');
  const settings = readFileSync(file, 'utf8');
  writeFileSync(file, settings.replace(/^DEMO_PID=.*$/m, 'DEMO_PID=0'));
  const { status, stderr } = await run('npm run -s gatehouse -- keys status');
  writeFileSync(file, settings);
  expect(status).toBe(78);
  expect(stderr).toContain('ENCRYPTION_KEYS is required');
});
