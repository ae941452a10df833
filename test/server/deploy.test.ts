/** docs/deploy.md, followed as far as a test can, and the commands of docs/backup.md and docs/keys.md for what it sets up. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/config.ts';
import { parseConnectedApps } from '../../src/connected-apps/app-file.ts';
import { createAddressPolicy } from '../../src/outbound/address-policy.ts';
import { generateEncryptionKey } from '../../src/storage/key-ring.ts';
import { checkStorageConfig } from '../../src/storage/storage.ts';
import type { Asked } from '../support/ask.ts';
import { startSite, type TestSite } from '../support/gatehouse.ts';
import { skipWithout } from '../support/missing.ts';
import { missingNginx, startNginx } from '../support/nginx.ts';
import { freePort } from '../support/ports.ts';
import { selfSigned } from '../support/self-signed.ts';
import { emptyFolder, programsOf, runSteps, sectionOf, stepsOf, writtenTo } from './shown-steps.ts';

const HOST = 'gatehouse.example.com';
const root = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const text = read('docs/deploy.md');
const written = (file: string) => writtenTo(text, file);
const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

/** The two parts of a document: for a machine set up step by step, and for containers. */
const partsOf = (path: string) => read(path).split('\n## Containers\n') as [string, string?];
const onMachine = ['docs/deploy.md', 'docs/backup.md', 'docs/keys.md'].map((path) => partsOf(path)[0]);
const inContainers = ['docs/deploy.md', 'docs/backup.md'].map((path) => partsOf(path)[1] ?? '');

describe('the programs that the documents call', () => {
  /** Of the shell, coreutils, util-linux, findutils, passwd, apt and systemd: a Debian without these is none that starts. */
  const BARE = [
    ...['.', 'break', 'cd', 'exit', 'export', 'set', 'umask', 'unset'],
    ...[
      'base64',
      'cat',
      'chmod',
      'chown',
      'date',
      'env',
      'head',
      'install',
      'ln',
      'mkdir',
      'mktemp',
      'mv',
      'rm',
      'sleep',
    ],
    ...['apt-get', 'find', 'runuser', 'systemctl', 'useradd'],
  ];
  const PACKAGES: Record<string, string[]> = {
    ...{ 'ca-certificates': [], cron: [], curl: ['curl'], git: ['git'], nginx: ['nginx'], npm: ['npm'] },
    ...{ openssl: ['openssl'], 'redis-server': [] },
  };
  const installed = onMachine.flatMap((part) =>
    [...part.matchAll(/^apt-get install -y --no-install-recommends (.+)$/gm)].flatMap(([, names = '']) =>
      names.split(' '),
    ),
  );
  const ownScripts = [...text.matchAll(/^cat > (\/usr\/local\/sbin\/(\S+)) /gm)];
  const steps = (part: string) => stepsOf(part).flatMap(programsOf);

  test('come with its packages, or with a bare Debian', () => {
    expect(installed.filter((name) => !(name in PACKAGES))).toEqual([]);
    const brought = [
      ...BARE,
      ...installed.flatMap((name) => PACKAGES[name] ?? []),
      ...ownScripts.map(([, , name]) => name),
    ];
    const called = [...onMachine.flatMap(steps), ...ownScripts.flatMap(([, path = '']) => programsOf(written(path)))];
    expect(called).toEqual(expect.arrayContaining(['curl', 'nginx', 'openssl', 'runuser', 'as-gatehouse']));
    expect(called.filter((name) => !brought.includes(name))).toEqual([]);
  });

  test('for containers are Docker’s and those of a bare Debian', () => {
    const called = inContainers.flatMap(steps);
    expect(called).toContain('docker');
    expect(called.filter((name) => ![...BARE, 'docker'].includes(name))).toEqual([]);
  });

  test('and the repository’s address is left to whoever follows', () => {
    expect(text).toMatch(/^REPOSITORY=https:\/\/git\.example\.com\//m);
    const cloned = [...text.matchAll(/\bgit clone (?:--branch \S+ )?(\S+)/g)].map(([, from]) => from);
    expect(new Set(cloned)).toEqual(new Set(['"$REPOSITORY"']));
  });
});

describe('step 3', () => {
  const [settingsSteps = '', commandSteps = ''] = stepsOf(sectionOf(text, '## 3. Settings'));
  /** Runs it in a folder that stands for the machine's root. */
  const follow = (steps: string, folder: string, stands: Record<string, string>) => {
    const moved = steps
      .replaceAll(/\/(etc|opt)\/gatehouse\b/g, `${folder}/$1`)
      .replaceAll('/usr/local/sbin/', `${folder}/bin/`)
      .replaceAll('-o root -g gatehouse ', '');
    return runSteps(moved, { folder, stands });
  };
  const followSettings = () => {
    const folder = emptyFolder();
    const key = generateEncryptionKey(new Date());
    const secret = randomBytes(48).toString('base64');
    const done = follow(settingsSteps, folder, { npm: `echo '${key}'`, openssl: `echo '${secret}'` });
    expect([done.status, done.errors]).toEqual([0, '']);
    return { folder, env: join(folder, 'etc', 'env') };
  };
  /** What a shell makes of the file. */
  const sourced = (folder: string, env: string) => {
    runSteps(`set -a; . ${env}; env > sourced`, { folder, stands: {} });
    const lines = readFileSync(join(folder, 'sourced'), 'utf8').matchAll(/^(\w+)=(.*)$/gm);
    return Object.fromEntries([...lines].map(([, name = '', value = '']) => [name, value]));
  };

  test('leaves files that only root and the service can read, at no moment anybody else', () => {
    const { folder } = followSettings();
    const modes = ['etc', 'etc/env', 'etc/client-secret', 'etc/connected-apps.json'].map((path) =>
      modeOf(join(folder, path)),
    );
    expect(modes).toEqual(['750', '640', '640', '640']);
    // The mode is there before the text is.
    expect(settingsSteps).not.toMatch(/chmod|chown/);
    expect(settingsSteps.match(/^install .*$/gm)?.filter((line) => !line.includes(' -o root -g gatehouse '))).toEqual(
      [],
    );
  });

  test('writes settings that are understood, and has the client secret in a file', () => {
    const { folder, env } = followSettings();
    const source = { env: sourced(folder, env), readFile: (path: string) => readFileSync(path, 'utf8') };
    const { values, faults } = loadConfig(source);
    expect([...faults, ...checkStorageConfig(values).faults]).toEqual([]);
    expect(readFileSync(env, 'utf8')).not.toContain('the-secret');
    const policy = createAddressPolicy(values.internalHosts);
    const { apps, faults: appFaults } = parseConnectedApps(
      source.readFile(values.connectedAppsFile ?? ''),
      source,
      policy,
    );
    expect(appFaults).toEqual([]);
    expect(apps[0]?.clientSecret).toBe('the-secret-that-the-provider-gave');
  });

  test('writes values that a shell reads as they stand, and names the characters for which that is so', () => {
    const { folder, env } = followSettings();
    const lines = readFileSync(env, 'utf8').trimEnd().split('\n');
    const read = sourced(folder, env);
    expect(lines.filter((line) => read[line.split('=')[0] ?? ''] !== line.replace(/^\w+=/, ''))).toEqual([]);
    const [, named = ''] = /letters, digits and\s+`([^`]+)` as they\s+stand/.exec(text) ?? [];
    const characters = named.split(' ');
    expect(characters.length).toBeGreaterThan(5);
    const value = characters.map((one) => `${one}a1${one}`).join('');
    // Without them a shell leaves nothing as it stands; nothing is to be learnt from "$" and its like.
    expect(value).not.toMatch(/[\s$`"'\\;&|<>()*?[\]#~!{}^]/);
    writeFileSync(env, `X=${value}\nY='a $b; "c" & \\d #e'\n`);
    expect(sourced(folder, env)).toMatchObject({ X: value, Y: 'a $b; "c" & \\d #e' });
  });

  test('makes a command that runs others as the service: its user, its settings, its folder', () => {
    const { folder } = followSettings();
    mkdirSync(join(folder, 'opt'));
    const runuser = 'echo "in $PWD for $PUBLIC_URL" >> "$CALLED"; shift 3; exec "$@"';
    const npm = 'printf "<%s>" "$@" >> "$CALLED"; echo >> "$CALLED"';
    const { status, called } = follow(`${commandSteps}\nas-gatehouse npm 'a b' '$c'`, folder, { runuser, npm });
    expect(status).toBe(0);
    expect(called.slice(-5)).toEqual([
      expect.stringMatching(/^<run><-s><gatehouse><--><apps><check><.+connected-apps.json>$/),
      'runuser -u gatehouse -- npm a b $c',
      `in ${join(folder, 'opt')} for https://${HOST}`,
      'npm a b $c',
      '<a b><$c>',
    ]);
    expect(modeOf(join(folder, 'bin', 'as-gatehouse'))).toBe('755');
  });
});

describe('commands for what it sets up', () => {
  test('run as the user of the service and with its settings', () => {
    const calls = onMachine.flatMap((part) => [
      ...part.matchAll(/(as-gatehouse (?:\$\w+ )?)?npm run (?:-s )?gatehouse -- ([a-z][a-z -]*)/g),
    ]);
    expect(calls.length).toBeGreaterThan(10);
    const bare = calls.filter(([, runner]) => runner === undefined).map(([, , command]) => command);
    // It reads no setting and opens no storage.
    expect(bare).toEqual(['keys generate']);
    expect(onMachine.join('')).toContain('[deploy.md](deploy.md#3-settings)');
  });

  test('make backups where root and the service alone can read them', () => {
    const [part = ''] = partsOf('docs/backup.md');
    const [, folder = ''] = /^install -d -o gatehouse -g gatehouse -m 700 (\S+)$/m.exec(part) ?? [];
    const files = [...part.matchAll(/(?:gatehouse -- (?:backup|restore)|&& find) (\S+)/g)].map(([, path = '']) => path);
    expect(files.length).toBeGreaterThan(3);
    expect(files.filter((path) => folder === '' || !`${path}/`.startsWith(`${folder}/`))).toEqual([]);
  });

  test('make one each night, and delete the old ones only after a new one is there', () => {
    const line = writtenTo(read('docs/backup.md'), '/etc/cron.d/gatehouse-backup');
    const [, command = ''] = /^15 3 \* \* \* root (.+)\n$/.exec(line) ?? [];
    // Cron's own rule: % is a new line where it has no backslash.
    expect(command.replaceAll('\\%', '')).not.toContain('%');
    const steps = command.replaceAll('\\%', '%').replace('/usr/local/sbin/', '');
    const run = (backup: string) =>
      runSteps(steps, { folder: emptyFolder(), stands: { 'as-gatehouse': backup, find: '' } });
    expect(run('exit 1').called).toEqual([
      expect.stringMatching(/ -- backup \/var\/backups\/gatehouse\/\d{4}-\d\d-\d\d\.backup$/),
    ]);
    expect(run('').called[1]).toMatch(/^find \/var\/backups\/gatehouse .*-delete$/);
  });
});

describe('the unit', () => {
  const unit = written('/etc/systemd/system/gatehouse@.service');

  test('starts files that are there', () => {
    const [, script = '', program = ''] = /exec sh (\S+) node (\S+)'$/m.exec(unit) ?? [];
    expect(read(script)).toContain('exec "$@"');
    expect(read('package.json')).toContain(`"start": "exec sh ${script} node ${program}"`);
  });

  test('R90 leaves a stop the time that it may take at worst, as every container does', () => {
    /** In seconds, as the source states it. */
    const stated = (path: string, name: string) =>
      Number(new RegExp(`\\b${name}(?::| =) ([\\d_]+)\\b`).exec(read(path))?.[1]?.replaceAll('_', '')) / 1000;
    const providerCall = stated('src/connected-apps/provider-client.ts', 'deadlineMilliseconds');
    const worst = [
      stated('src/http/listeners.ts', 'LAST_REQUEST_MS'),
      Number(/^#SHUTDOWN_SECONDS=(\d+)$/m.exec(read('.env.example'))?.[1]),
      // A refresh that a last request began: it waits for another process, asks what it needs, and a second time with a nonce.
      stated('src/grants/refresh.ts', 'maxMs'),
      // Metadata and keys.
      2 * stated('src/connected-apps/provider-read.ts', 'deadlineMilliseconds'),
      2 * providerCall,
      stated('src/grants/refresh-outcome.ts', 'SAVE_RETRY_TIMEOUT_MS'),
      // What is told of it, and the rest of src/gatehouse.ts' close.
      stated('src/webhooks/messages.ts', 'deadlineMilliseconds'),
      stated('src/audit/notes.ts', 'SETTLE_MS'),
      stated('src/observability/tracing.ts', 'MAX_CLOSE_MS'),
    ].reduce((sum, seconds) => sum + seconds);
    expect(worst).toBeGreaterThan(100);
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(worst);
    expect(Number(/^ {4}stop_grace_period: (\d+)s$/m.exec(read('compose.yaml'))?.[1])).toBeGreaterThan(worst);
    expect(Number(/ --stop-timeout (\d+) /.exec(text)?.[1])).toBeGreaterThan(worst);
  });

  test('R44 leaves no core file, wherever it runs', () => {
    expect(unit).toMatch(/^LimitCORE=0$/m);
    expect(read('compose.yaml')).toMatch(/^ {4}ulimits: \{ core: 0 \}$/m);
    expect(text).toMatch(/ --ulimit core=0 /);
  });

  test('is restarted one process after the other, and not the next where one is not ready', () => {
    const [loop = ''] = stepsOf(sectionOf(text, '## Later'));
    const run = (curl: string) =>
      runSteps(loop, { folder: emptyFolder(), stands: { systemctl: '', curl, sleep: '' } }).called;
    const restarted = (port: number) => [
      `systemctl restart gatehouse@${port}`,
      expect.stringContaining(`:1${port}/readyz`),
    ];
    expect(run('')).toEqual([...restarted(3000), ...restarted(3001)]);
    expect(run('exit 22')).toEqual(restarted(3000));
  });
});

describe('the nginx of step 5', () => {
  const { key, cert } = selfSigned(HOST);
  /** Follows it on a machine whose root is a folder: the settings of nginx with the folder's paths, and where the certificate lies. */
  const follow = () => {
    const folder = emptyFolder();
    for (const path of ['etc/ssl', 'etc/nginx/conf.d']) mkdirSync(join(folder, path), { recursive: true });
    writeFileSync(join(folder, 'given.pem'), cert);
    writeFileSync(join(folder, 'given.key'), key);
    const [steps = ''] = stepsOf(sectionOf(text, '## 5. TLS in front'));
    const moved = steps
      .replaceAll('/etc/', `${folder}/etc/`)
      .replace(/^(CERTIFICATE=).*$/m, `$1${folder}/given.pem`)
      .replace(/^(KEY=).*$/m, `$1${folder}/given.key`);
    const run = (nginx: string) => runSteps(moved, { folder, stands: { nginx, systemctl: '' } });
    const done = run('');
    expect([done.status, done.errors]).toEqual([0, '']);
    return { run, done, folder, settings: readFileSync(join(folder, 'etc/nginx/conf.d/gatehouse.conf'), 'utf8') };
  };

  test('finds certificate and key where the steps put them, for root alone', () => {
    const { run, done, folder, settings } = follow();
    const named = [...settings.matchAll(/^ *ssl_certificate(?:_key)? (\S+);$/gm)].map(([, path = '']) => path);
    expect(named.map((path) => readFileSync(path, 'utf8'))).toEqual([cert, key]);
    expect(named.map(modeOf)).toEqual(['600', '600']);
    expect(modeOf(join(folder, 'etc/ssl/gatehouse'))).toBe('700');
    expect(done.called).toEqual(['nginx -t', 'systemctl reload nginx']);
    expect(run('exit 1').called.slice(2)).toEqual(['nginx -t']);
  });

  describe('R74 with Gatehouse behind it', () => {
    let site: TestSite;
    beforeAll(async () => {
      site = await startSite({
        env: { PUBLIC_URL: `https://${HOST}`, TRUSTED_PROXIES: '127.0.0.1', PORT: String(await freePort()) },
      });
    });
    afterAll(() => site?.close());

    test('speaks TLS, leaves out a process that is gone, and browsers get cookies for https alone', async (context) => {
      skipWithout(context, missingNginx);
      const port = await freePort();
      const settings = follow()
        .settings.replace('127.0.0.1:3000', `127.0.0.1:${site.env.PORT}`)
        .replace('127.0.0.1:3001', `127.0.0.1:${await freePort()}`)
        .replace('listen 443', `listen 127.0.0.1:${port}`)
        .replace('listen 80;', `listen 127.0.0.1:${await freePort()};`);
      const ask = (path: string) => askOverTls({ port, path, cert });
      const nginx = await startNginx(settings, async () => (await ask('/sign-in')).status > 0);
      try {
        const started = await ask('/sign-in');
        expect(started.status).toBe(303);
        expect(started.headers.location).toContain(site.sandbox.issuer);
        expect(started.headers['set-cookie']?.join()).toMatch(/^__Host-gatehouse-tx=[^;]+;.*; Secure/);
        expect(started.headers['strict-transport-security']).toMatch(/max-age=\d{7,}/);
        // Both servers in turn: the one that is not there is passed over.
        const answers = await Promise.all(Array.from({ length: 8 }, () => ask('/threads/current')));
        expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 401));
      } finally {
        await nginx.stop();
      }
    });
  });
});

function askOverTls({ port, path, cert }: { port: number; path: string; cert: string }): Promise<Asked> {
  return new Promise((resolve, reject) => {
    const target = { host: '127.0.0.1', port, path, servername: HOST, ca: cert, agent: false };
    const outgoing = request({ ...target, headers: { host: HOST, accept: 'application/json' } }, (answer) => {
      answer.resume().on('end', () =>
        resolve({
          status: answer.statusCode ?? 0,
          headers: answer.headers,
          rawHeaders: answer.rawHeaders,
          body: '',
        }),
      );
    });
    outgoing.on('error', reject).end();
  });
}
