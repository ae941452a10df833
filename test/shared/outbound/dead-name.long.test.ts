/** Calls to other hosts in a shipped process while name servers do not respond. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { killOnExit } from '../../support/child-processes.ts';
import { skipIfMissing } from '../../support/missing.ts';

const ROOT = join(import.meta.dirname, '../../..');
const missing = spawnSync('gcc', ['--version']).status === 0 ? undefined : 'gcc';
let directory: string;
let host: Server;
let url: string;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-names-'));
  if (missing === undefined) {
    const source = join(import.meta.dirname, 'dead-name.c');
    spawnSync('gcc', ['-shared', '-fPIC', '-o', join(directory, 'dead-name.so'), source, '-ldl']);
  }
  // Each call needs a new connection, and so a lookup.
  host = createServer((_req, res) => void res.setHeader('connection', 'close').end('{}'));
  await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve));
  url = `http://alive.localhost:${(host.address() as AddressInfo).port}/`;
});
afterAll(() => {
  host.close();
  rmSync(directory, { recursive: true, force: true });
});
beforeEach((context) => skipIfMissing(context, missing));

/** Calls each dead name every 250 ms, and the live host 33 times meanwhile. */
const PROGRAM = `
import { createAddressPolicy } from './src/shared/outbound/address-policy.ts';
import { createOutbound } from './src/shared/outbound/outbound.ts';
const [url, count] = process.argv.slice(-2);
const dead = Array.from({ length: Number(count) }, (_, index) => \`dead-\${index}.example.com\`);
const host = new URL(url).hostname;
const slow = new Set();
const policy = createAddressPolicy([host, '127.0.0.1', '::1']);
const threadPoolSize = Number(process.env.UV_THREADPOOL_SIZE);
const outbound = createOutbound({ policy, threadPoolSize, onSlowName: ({ host }) => slow.add(host) });
const messages = new Set();
const call = (to, limit) => outbound.fetch(to, {}, { deadlineMilliseconds: limit, maxBytes: 1000 });
const callDead = () => {
  for (const name of dead) call(\`https://\${name}/\`, 15_000).catch(({ message }) => messages.add(message.replace(/-\\d+/, '')));
};
callDead();
const ticking = setInterval(callDead, 250);
await new Promise((resolve) => setTimeout(resolve, 1_500));
let good = 0;
let longest = 0;
for (let index = 0; index < 33; index += 1) {
  const startedAt = performance.now();
  await call(url, 5_000).then(() => { good += 1; }, () => undefined);
  longest = Math.max(longest, performance.now() - startedAt);
  await new Promise((resolve) => setTimeout(resolve, 300));
}
clearInterval(ticking);
console.log(JSON.stringify({ good, longest, messages: [...messages], slow: slow.size }));
process.exit(0);
`;

async function run(names: number): Promise<{ good: number; longest: number; messages: string[]; slow: number }> {
  const env = { PATH: process.env.PATH ?? '', LD_PRELOAD: join(directory, 'dead-name.so') };
  const args = ['src/with-node.sh', 'node', '--input-type=module', '-e', PROGRAM, '--', url, String(names)];
  const child = killOnExit(spawn('sh', args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'inherit'] }));
  let out = '';
  for await (const chunk of child.stdout) out += chunk;
  return JSON.parse(out);
}

test.each([1, 10])('R129 %i names that do not resolve delay no call to another host', async (names) => {
  const { good, longest, messages, slow } = await run(names);
  expect({ good, slow }).toEqual({ good: 33, slow: names });
  expect(longest).toBeLessThan(2_000);
  expect(messages).toContain('the name dead.example.com was not resolved in time');
});
