/**
 * Runs the steps of docs/deploy.md as far as a test can, and the commands of docs/backup.md, keys.md and upgrading.md
 * for the resulting service.
 */

import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseConnectedApps } from '../../src/gatehouse/connected-apps/app-file.ts';
import { loadConfig } from '../../src/shared/config/config.ts';
import { createAddressPolicy } from '../../src/shared/outbound/address-policy.ts';
import { sharedAssets } from '../../src/shared/pages/assets.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { checkStorageConfig } from '../../src/shared/storage/storage.ts';
import { getJson, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { skipIfMissing } from '../support/missing.ts';
import { missingNginx, startNginx } from '../support/nginx.ts';
import { freePort } from '../support/ports.ts';
import { selfSigned } from '../support/self-signed.ts';
import { type ReceivedResponse, sendRequest } from '../support/send-request.ts';
import { sendRequestOverHttp2 } from '../support/send-request-http2.ts';
import { emptyFolder, programsOf, runSteps, sectionOf, stepsOf, writtenTo } from './shown-steps.ts';

const missingSystemd = spawnSync('systemd-analyze', ['--version']).status === 0 ? undefined : 'systemd-analyze';

const HOST = 'gatehouse.example.com';
const root = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const text = read('docs/deploy.md');
const written = (file: string) => writtenTo(text, file);
const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

/** Returns the two parts of a document: for a machine that is set up step by step, and for containers. */
const partsOf = (path: string) => read(path).split('\n## Containers\n') as [string, string?];
const machineParts = ['docs/deploy.md', 'docs/backup.md', 'docs/keys.md', 'docs/upgrading.md'].map(
  (path) => partsOf(path)[0],
);
const containerParts = ['docs/deploy.md', 'docs/backup.md'].map((path) => partsOf(path)[1] ?? '');

describe('the programs that the documents call', () => {
  /** The programs of the shell, coreutils, util-linux, findutils, passwd, apt and systemd, which every Debian has. */
  const DEBIAN_PROGRAMS = [
    '.',
    ':',
    'break',
    'cd',
    'exit',
    'export',
    'printf',
    'set',
    'umask',
    'unset',
    'base64',
    'cat',
    'chmod',
    'chown',
    'date',
    'env',
    'head',
    'install',
    'ln',
    'ls',
    'mkdir',
    'mktemp',
    'mv',
    'rm',
    'sleep',
    'apt-get',
    'find',
    'grep',
    'runuser',
    'sed',
    'sha256sum',
    'systemctl',
    'tar',
    'uname',
    'useradd',
  ];
  const PACKAGES: Record<string, string[]> = {
    'ca-certificates': [],
    cron: [],
    curl: ['curl'],
    git: ['git'],
    nginx: ['nginx'],
    // Node's own archive does not contain libatomic, and does not start without it.
    libatomic1: [],
    openssl: ['openssl'],
    'redis-server': [],
  };
  const installed = machineParts.flatMap((part) =>
    [...part.matchAll(/^apt-get install -y --no-install-recommends (.+)$/gm)].flatMap(([, names = '']) =>
      names.split(' '),
    ),
  );
  const ownScripts = [...text.matchAll(/^cat > (\/usr\/local\/sbin\/(\S+)) /gm)];
  const programsIn = (part: string) => stepsOf(part).flatMap(programsOf);

  test('come with the packages of the documents, or with a minimal Debian', () => {
    expect(installed.filter((name) => !(name in PACKAGES))).toEqual([]);

    const available = [
      ...DEBIAN_PROGRAMS,
      ...installed.flatMap((name) => PACKAGES[name] ?? []),
      ...ownScripts.map(([, , name]) => name),
      // Part of the archive of nodejs.org.
      'npm',
    ];
    const called = [
      ...machineParts.flatMap(programsIn),
      ...ownScripts.flatMap(([, path = '']) => programsOf(written(path))),
    ];
    expect(called).toEqual(expect.arrayContaining(['curl', 'nginx', 'openssl', 'runuser', 'as-gatehouse']));
    expect(called.filter((name) => !available.includes(name))).toEqual([]);
  });

  test('for containers are those of Docker and of a minimal Debian, and openssl', () => {
    const called = containerParts.flatMap(programsIn);
    expect(called).toContain('docker');
    expect(called.filter((name) => ![...DEBIAN_PROGRAMS, 'docker', 'openssl'].includes(name))).toEqual([]);
    expect(partsOf('docs/deploy.md')[1]).toContain('You need `openssl`');
  });

  test('and the address of the repository is a placeholder', () => {
    expect(text).toMatch(/^REPOSITORY=https:\/\/git\.example\.com\//m);
    for (const part of [text, read('docs/upgrading.md')])
      expect([...part.matchAll(/\bgit .*clone .+$/gm)].map(([line]) => line)).toEqual([
        'git -c advice.detachedHead=false clone --branch "$VERSION" "$REPOSITORY" "/opt/gatehouse-$VERSION"',
      ]);
  });
});

describe('step 1', () => {
  const [node = '', program = ''] = stepsOf(sectionOf(text, '## 1. Packages, Node and the program'));
  /**
   * A stand-in for curl that serves the newest Node 26 like nodejs.org: hashes of several archives, and the archive for
   * each machine. The URL is its last argument.
   */
  const curl = (hash: string) => `
    for url; do :; done
    case "$url" in
      */SHASUMS256.txt)
        for kind in linux-arm64.tar.gz linux-x64.tar.gz linux-x64.tar.xz; do
          echo "${hash}  node-v26.99.1-$kind"
        done > SHASUMS256.txt ;;
      *) mkdir -p node-v26.99.1/bin && echo 'echo v26.99.1' > node-v26.99.1/bin/node && chmod 755 node-v26.99.1/bin/node &&
         tar -czf "$(basename "$url")" node-v26.99.1 ;;
    esac`;
  const install = (machine: string, sha256sum: string) => {
    const folder = emptyFolder();
    mkdirSync(join(folder, 'local'));
    const standIns = { 'apt-get': '', curl: curl('0'.repeat(64)), uname: `echo ${machine}`, sha256sum };
    const { status, called } = runSteps(node.replace('/usr/local', `${folder}/local`), { folder, standIns });
    return { status, called, node: join(folder, 'local', 'bin', 'node') };
  };

  test.each([
    ['x86_64', 'linux-x64'],
    ['aarch64', 'linux-arm64'],
  ])('puts the newest Node 26 of nodejs.org where %s finds it', (machine, kind) => {
    const { status, called, node: installed } = install(machine, `grep -c '${kind}.tar.gz$' >&2`);
    expect([status, readFileSync(installed, 'utf8')]).toEqual([0, 'echo v26.99.1\n']);
    expect(called.at(-1)).toBe('sha256sum -c');
    expect(called).toContain(`curl -fsSO https://nodejs.org/dist/latest-v26.x/node-v26.99.1-${kind}.tar.gz`);
  });

  test('does not unpack an archive with another hash', () => {
    // The real sha256sum runs, and the archive has another hash.
    const { status, node: installed } = install('x86_64', 'exec /usr/bin/sha256sum "$@"');
    expect([status === 0, existsSync(installed)]).toEqual([false, false]);
  });

  test('installs only production packages and no second Node, like the image', () => {
    const [command = ''] = /^npm ci .*$/m.exec(program) ?? [];
    expect(command).toBe('npm ci --omit=dev --omit=optional');
    expect(read('Dockerfile')).toContain(`RUN ${command}\n`);
    expect(text.match(/npm ci [^`\n]*/g)).toEqual([command]);
    expect(read('docs/upgrading.md')).toContain(`&& ${command})`);

    const { engines, optionalDependencies } = JSON.parse(read('package.json'));
    expect(engines.node).toBe('>=26');
    expect(node).toContain(`latest-v${engines.node.slice(2)}.x`);
    expect(Object.keys(optionalDependencies).every((name) => /^node-(?:bin-)?(?:darwin|linux)-/.test(name))).toBe(true);
  });
});

describe('step 3', () => {
  const [settingsSteps = '', commandSteps = ''] = stepsOf(sectionOf(text, '## 3. Settings'));
  /** Runs the steps with a folder in place of the root of the machine. */
  const follow = (steps: string, folder: string, standIns: Record<string, string>) => {
    const moved = steps
      .replaceAll(/\/(etc|opt)\/gatehouse\b/g, `${folder}/$1`)
      .replaceAll('/usr/local/sbin/', `${folder}/bin/`)
      .replaceAll('/usr/local/bin', `${folder}/local/bin`)
      .replaceAll('/usr/sbin', `${folder}/usr/sbin`)
      .replaceAll(/-o root -g (?:gatehouse|root) /g, '');
    return runSteps(moved, { folder, standIns });
  };
  const followSettings = () => {
    const folder = emptyFolder();
    mkdirSync(join(folder, 'opt'));
    const key = generateEncryptionKey(new Date());
    const secret = randomBytes(48).toString('base64');
    const result = follow(settingsSteps, folder, { npm: `echo '${key}'`, openssl: `echo '${secret}'` });
    expect([result.status, result.errors]).toEqual([0, '']);
    return { folder, env: join(folder, 'etc', 'env') };
  };
  const SECRET_FILES = ['etc/session-secrets', 'etc/encryption-keys'];
  /** Returns the variables that a shell reads from the file, with those that the unit adds. */
  const serviceEnv = (folder: string, env: string) => {
    const unit = written('/etc/systemd/system/gatehouse@.service');
    const credentials = new Map<string, string>();
    for (const [, name = '', file = ''] of unit.matchAll(/^LoadCredential=(\S+?):\/etc\/gatehouse\/(\S+)$/gm))
      credentials.set(name, file);
    expect([...credentials.values()].map((file) => `etc/${file}`)).toEqual(SECRET_FILES);
    const unitSettings = [...unit.matchAll(/^Environment=(.+)$/gm)].flatMap(([, line = '']) => line.split(' '));
    const values = unitSettings.map((setting): [string, string] => {
      const [name = '', value = ''] = setting.split('=');
      // systemd replaces %d by the folder of the credentials, and %i by the port in the name of the unit.
      const path = value.replace(/^%d\/(.+)$/, (_all, credential: string) =>
        join(folder, 'etc', credentials.get(credential) ?? ''),
      );
      return [name, path.replaceAll('%i', '3000')];
    });
    return { ...readByShell(folder, env), ...Object.fromEntries(values) };
  };
  /** Returns the variables that a shell reads from the file. */
  const readByShell = (folder: string, env: string) => {
    runSteps(`set -a; . ${env}; env > sourced`, { folder, standIns: {} });
    const lines = readFileSync(join(folder, 'sourced'), 'utf8').matchAll(/^(\w+)=(.*)$/gm);
    return Object.fromEntries([...lines].map(([, name = '', value = '']) => [name, value]));
  };

  test('creates files that only root and the service can ever read', () => {
    const { folder } = followSettings();
    const modes = ['etc', 'etc/env', 'etc/client-secret', 'etc/connected-apps.json', ...SECRET_FILES].map((path) =>
      modeOf(join(folder, path)),
    );
    expect(modes).toEqual(['750', '640', '640', '640', '600', '600']);
    // The mode is set before the text is written.
    expect(settingsSteps).not.toMatch(/chmod|chown/);

    const groupsAndModes = settingsSteps
      .match(/^install .*$/gm)
      ?.map((line) => / -o root -g (\w+) -m (\d+) /.exec(line)?.slice(1));
    expect(groupsAndModes).toEqual([
      ['gatehouse', '750'],
      ...Array(3).fill(['gatehouse', '640']),
      ...SECRET_FILES.map(() => ['root', '600']),
    ]);
  });

  test('stops if a key cannot be generated, so that no file stays empty unnoticed', () => {
    const folder = emptyFolder();
    mkdirSync(join(folder, 'opt'));
    const { status, called } = follow(settingsSteps, folder, { npm: 'exit 254', openssl: 'echo secret' });
    expect([status, called.at(-1)]).toEqual([254, 'npm run -s gatehouse -- keys generate']);
    expect(readFileSync(join(folder, 'etc', 'env'), 'utf8')).toBe('');
    // The command finds the program from any folder.
    expect(settingsSteps).toMatch(/^cd \/opt\/gatehouse$/m);
  });

  test('writes valid settings, and the client secret to a file', () => {
    const { folder, env } = followSettings();
    const source = { env: serviceEnv(folder, env), readFile: (path: string) => readFileSync(path, 'utf8') };
    const { values, faults } = loadConfig(source);
    expect([...faults, ...checkStorageConfig(values).faults]).toEqual([]);
    expect(readFileSync(env, 'utf8')).not.toMatch(/the-secret|SECRETS|KEYS/);
    expect([values.listen.port, values.management.port]).toEqual([3000, 13_000]);

    const policy = createAddressPolicy(values.internalHosts);
    const { apps, faults: appFaults } = parseConnectedApps(source.readFile(values.connectedAppsFile ?? ''), source, {
      policy,
    });
    expect(appFaults).toEqual([]);
    expect(apps[0]?.clientSecret).toBe('the-secret-that-the-provider-gave');
  });

  test('writes values that a shell reads unchanged, and names the characters for which that is true', () => {
    const { folder, env } = followSettings();
    const lines = readFileSync(env, 'utf8').trimEnd().split('\n');
    const values = readByShell(folder, env);
    expect(lines.filter((line) => values[line.split('=')[0] ?? ''] !== line.replace(/^\w+=/, ''))).toEqual([]);

    const [, named = ''] = /letters, digits and\s+`([^`]+)` as they\s+stand/.exec(text) ?? [];
    const characters = named.split(' ');
    expect(characters.length).toBeGreaterThan(5);

    const value = characters.map((character) => `${character}a1${character}`).join('');
    // The document must not name a character that a shell interprets.
    expect(value).not.toMatch(/[\s$`"'\\;&|<>()*?[\]#~!{}^]/);

    writeFileSync(env, `X=${value}\nY='a $b; "c" & \\d #e'\n`);
    expect(readByShell(folder, env)).toMatchObject({ X: value, Y: 'a $b; "c" & \\d #e' });
  });

  test('creates a command that runs others with the user, the settings and the folder of the service', () => {
    const { folder } = followSettings();
    const secrets = SECRET_FILES.map((path) => readFileSync(join(folder, path), 'utf8').trim());
    const runuser =
      'echo "in $PWD for $PUBLIC_URL with $SESSION_SECRETS and $ENCRYPTION_KEYS, path $PATH" >> "$CALLED"; shift 3; exec "$@"';
    const npm = 'printf "<%s>" "$@" >> "$CALLED"; echo >> "$CALLED"';
    const { status, called } = follow(`${commandSteps}\nas-gatehouse npm 'a b' '$c'`, folder, { runuser, npm });
    expect(status).toBe(0);
    expect(called).toContain('<run><-s><gatehouse><--><config><check>');
    expect(called.slice(-5)).toEqual([
      expect.stringMatching(/^<run><-s><gatehouse><--><apps><check><.+connected-apps.json>$/),
      'runuser -u gatehouse -- npm a b $c',
      expect.stringMatching(
        `^in ${join(folder, 'opt')} for https://${HOST} with ${RegExp.escape(secrets.join(' and '))}, path ${join(folder, 'local', 'bin')}:`,
      ),
      'npm a b $c',
      '<a b><$c>',
    ]);
    expect(modeOf(join(folder, 'bin', 'as-gatehouse'))).toBe('755');
  });

  test('its command finds programs under cron, too, and by default calls the first process', () => {
    const { folder } = followSettings();
    expect(follow(commandSteps, folder, { runuser: '', npm: '' }).status).toBe(0);

    // Debian and nodejs.org install them there. The PATH of cron has neither folder.
    const scripts = {
      'usr/sbin/runuser': 'shift 3; exec "$@"',
      'local/bin/npm': 'echo "npm $*, port $MANAGEMENT_PORT"',
    };
    for (const [path, body] of Object.entries(scripts)) {
      mkdirSync(join(folder, path, '..'), { recursive: true });
      writeFileSync(join(folder, path), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
    }
    const runFromCron = (env: NodeJS.ProcessEnv) => {
      const options = { env: { PATH: '/usr/bin:/bin', ...env }, encoding: 'utf8' } as const;
      return spawnSync('sh', ['-c', `${join(folder, 'bin', 'as-gatehouse')} npm run x`], options);
    };
    expect(runFromCron({})).toMatchObject({ status: 0, stderr: '', stdout: 'npm run x, port 13000\n' });
    expect(runFromCron({ MANAGEMENT_PORT: '13001' }).stdout).toBe('npm run x, port 13001\n');
    expect(read('docs/backup.md')).toContain("\nenv -i PATH=/usr/bin:/bin sh -c '/usr/local/sbin/as-gatehouse npm ");
  });
});

describe('the commands for the service that step 3 sets up', () => {
  test('run as the user of the service and with the settings of the service', () => {
    const calls = machineParts.flatMap((part) => [
      ...part.matchAll(/(as-gatehouse (?:\$\w+ )?)?npm run (?:-s )?gatehouse -- ([a-z][a-z -]*)/g),
    ]);
    expect(calls.length).toBeGreaterThan(10);

    const bare = calls.filter(([, runner]) => runner === undefined).map(([, , command = '']) => command.trim());
    // The command reads no setting and opens no storage.
    expect(bare).toEqual(['keys generate']);
    expect(machineParts.join('')).toContain('[deploy.md](deploy.md#3-settings)');
  });

  test('write backups that only root and the service can read', () => {
    const [part = ''] = partsOf('docs/backup.md');
    const [, folder = ''] = /^install -d -o gatehouse -g gatehouse -m 700 (\S+)$/m.exec(part) ?? [];
    const files = [...part.matchAll(/(?:gatehouse -- (?:backup(?: verify)?|restore)|&& find) (\S+)/g)].map(
      ([, path = '']) => path,
    );
    expect(files.length).toBeGreaterThan(3);
    expect(files.filter((path) => folder === '' || !`${path}/`.startsWith(`${folder}/`))).toEqual([]);
  });

  test('write a backup each night, and delete old ones only after a new one exists', () => {
    const line = writtenTo(read('docs/backup.md'), '/etc/cron.d/gatehouse-backup');
    const [, command = ''] = /^15 3 \* \* \* root (.+)\n$/.exec(line) ?? [];
    // In a crontab, % without a backslash is a line break.
    expect(command.replaceAll('\\%', '')).not.toContain('%');

    const steps = command.replaceAll('\\%', '%').replace('/usr/local/sbin/', '');
    const run = (backup: string) =>
      runSteps(steps, { folder: emptyFolder(), standIns: { 'as-gatehouse': backup, find: '' } });
    expect(run('exit 1').called).toEqual([
      expect.stringMatching(/ -- backup \/var\/backups\/gatehouse\/\d{4}-\d\d-\d\dT\d{6}\.backup$/),
    ]);
    expect(run('').called[1]).toMatch(/^find \/var\/backups\/gatehouse .*-delete$/);
  });
});

describe('the unit', () => {
  const unit = written('/etc/systemd/system/gatehouse@.service');

  test('starts files that exist', () => {
    const [, script = '', program = ''] = /^ExecStart=\/bin\/sh (\S+) node (\S+)$/m.exec(unit) ?? [];
    expect(read(script)).toContain('exec "$@"');
    expect(read('package.json')).toContain(`"start": "exec sh ${script} node ${program}"`);
  });

  test('R90 is valid for systemd, whose security analysis finds little that is still exposed', (context) => {
    skipIfMissing(context, missingSystemd);
    const folder = emptyFolder();
    const path = join(folder, 'gatehouse@3000.service');
    writeFileSync(path, unit);
    const analyze = (...args: string[]) => spawnSync('systemd-analyze', [...args, path], { encoding: 'utf8' });
    const verified = analyze('verify');
    expect([verified.status, verified.stdout + verified.stderr]).toEqual([0, '']);
    // The threshold is ten times the exposure that the command prints.
    expect(analyze('security', '--offline=true', '--threshold=25').status).toBe(0);
    // With this setting, Node could not compile JavaScript.
    expect(unit).not.toMatch(/^MemoryDenyWriteExecute=/m);
  });

  test('R90 allows the longest possible stop, as every container does', () => {
    /** Returns the seconds of a constant in a source file, which has milliseconds. */
    const secondsIn = (path: string, name: string) =>
      Number(new RegExp(`\\b${name}(?::| =) ([\\d_]+)\\b`).exec(read(path))?.[1]?.replaceAll('_', '')) / 1000;
    const providerCall = secondsIn('src/shared/provider/provider-client.ts', 'deadlineMilliseconds');
    const longestSteps = [
      secondsIn('src/shared/http/listeners.ts', 'LAST_REQUEST_MS'),
      Number(/^#SHUTDOWN_DELAY_SECONDS=(\d+)$/m.exec(read('.env.example'))?.[1]),
      Number(/^#SHUTDOWN_SECONDS=(\d+)$/m.exec(read('.env.example'))?.[1]),
      // A refresh that the last request started: it waits for another process, and calls the provider, a second time
      // with a nonce.
      secondsIn('src/gatehouse/grants/refresh.ts', 'maxMs'),
      // Metadata and keys.
      2 * secondsIn('src/shared/provider/provider-read.ts', 'deadlineMilliseconds'),
      2 * providerCall,
      secondsIn('src/gatehouse/grants/refresh-outcome.ts', 'SAVE_RETRY_TIMEOUT_MS'),
      // The events of the refresh, and the rest of `close` in src/gatehouse/gatehouse.ts.
      secondsIn('src/gatehouse/webhooks/delivery.ts', 'deadlineMilliseconds'),
      // The announcements of webhooks, and the audit trail.
      2 * secondsIn('src/shared/storage/write-queue.ts', 'CLOSE_MS'),
      secondsIn('src/shared/observability/tracing.ts', 'MAX_CLOSE_MS'),
    ];
    const longestStop = longestSteps.reduce((sum, seconds) => sum + seconds);
    expect(longestStop).toBeGreaterThan(100);
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(longestStop);
    expect(Number(/^ {4}stop_grace_period: (\d+)s$/m.exec(read('compose.yaml'))?.[1])).toBeGreaterThan(longestStop);
    expect(Number(/ --stop-timeout (\d+) /.exec(text)?.[1])).toBeGreaterThan(longestStop);
  });

  test('R44 writes no core file, like every other way to run Gatehouse', () => {
    expect(unit).toMatch(/^LimitCORE=0$/m);
    expect(read('compose.yaml')).toMatch(/^ {4}ulimits: \{ core: 0 \}$/m);
    expect(text).toMatch(/ --ulimit core=0 /);
  });

  test('is restarted one process after the other, and the restart stops if a process does not become ready', () => {
    const [loop = ''] = stepsOf(sectionOf(text, '## Later'));
    const run = (curl: string) =>
      runSteps(loop, { folder: emptyFolder(), standIns: { systemctl: '', curl, sleep: '' } }).called;
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
  /** Runs the steps with a folder in place of the root of the machine. Returns the resulting settings of nginx. */
  const follow = () => {
    const folder = emptyFolder();
    for (const path of ['etc/ssl', 'etc/nginx/conf.d', 'etc/nginx/sites-enabled']) {
      mkdirSync(join(folder, path), { recursive: true });
    }
    for (const name of ['default', 'other']) writeFileSync(join(folder, 'etc/nginx/sites-enabled', name), '');
    writeFileSync(join(folder, 'given.pem'), cert);
    writeFileSync(join(folder, 'given.key'), key);
    const [steps = ''] = stepsOf(sectionOf(text, '## 5. TLS in front'));
    const moved = steps
      .replaceAll('/etc/', `${folder}/etc/`)
      .replace(/^(CERTIFICATE=).*$/m, `$1${folder}/given.pem`)
      .replace(/^(KEY=).*$/m, `$1${folder}/given.key`);
    const run = (nginx: string) => runSteps(moved, { folder, standIns: { nginx, systemctl: '' } });
    const result = run('');
    expect([result.status, result.errors]).toEqual([0, '']);
    return { run, result, folder, settings: readFileSync(join(folder, 'etc/nginx/conf.d/gatehouse.conf'), 'utf8') };
  };

  test('finds certificate and key where the steps put them, readable only by root', () => {
    const { run, result, folder, settings } = follow();
    const paths = [...settings.matchAll(/^ *ssl_certificate(?:_key)? (\S+);$/gm)].map(([, path = '']) => path);
    expect(paths.map((path) => readFileSync(path, 'utf8'))).toEqual([cert, key]);
    expect(paths.map(modeOf)).toEqual(['600', '600']);
    expect(modeOf(join(folder, 'etc/ssl/gatehouse'))).toBe('700');
    expect(result.called).toEqual(['nginx -t', 'systemctl reload nginx']);
    expect(run('exit 1').called.slice(2)).toEqual(['nginx -t']);
    // The default page of Debian is no longer enabled.
    expect(readdirSync(join(folder, 'etc/nginx/sites-enabled'))).toEqual(['other']);
  });

  test('R74 never compresses a page of a signed-in user', async () => {
    const site = await startSite();
    try {
      const { agent } = await signIn(site);
      const { json } = await getJson(agent, `${site.url}/session`);
      for (const path of ['/assets/none.css', '/assets/', '/%61ssets/none.css']) {
        const page = await agent.get(site.url + path);
        expect(page.status).toBe(404);
        expect(page.body).not.toContain(json.csrfToken);
      }
    } finally {
      await site.close();
    }
  });

  describe('R74 with Gatehouse behind it', () => {
    let site: TestSite;
    beforeAll(async () => {
      site = await startSite({
        env: { PUBLIC_URL: `https://${HOST}`, TRUSTED_PROXIES: '127.0.0.1', PORT: String(await freePort()) },
      });
    });
    afterAll(() => site?.close());

    /** Starts nginx in front of a running process and a dead one. */
    const start = async () => {
      const [port, plainPort] = [await freePort(), await freePort()];
      const settings = follow()
        .settings.replace('127.0.0.1:3000', `127.0.0.1:${site.env.PORT}`)
        .replace('127.0.0.1:3001', `127.0.0.1:${await freePort()}`)
        .replace('listen 443', `listen 127.0.0.1:${port}`)
        .replace('listen [::]:443', `listen [::1]:${port}`)
        .replace('listen [::]:80;', `listen [::1]:${plainPort};`)
        .replace('listen 80;', `listen 127.0.0.1:${plainPort};`);
      const get = (path: string, host = '127.0.0.1') => getOverTls({ host, port, path, cert });
      const nginx = await startNginx(settings, async () => (await get('/sign-in')).status > 0);
      return { nginx, port, plainPort, get };
    };

    test('speaks HTTP/2, compresses only styles and scripts, and redirects port 80 to https', async (context) => {
      skipIfMissing(context, missingNginx);
      const { nginx, port, plainPort } = await start();
      const getOverHttp2 = (path: string) =>
        sendRequestOverHttp2({ port, host: HOST, cert }, path, { 'accept-encoding': 'gzip', accept: 'text/html' });
      try {
        for (const path of [`${sharedAssets().path}/pico.css`, `${sharedAssets().path}/gatehouse.css`]) {
          const { status, headers, body } = await getOverHttp2(path);
          expect([status, headers['content-encoding'], headers.vary]).toEqual([
            200,
            'gzip',
            expect.stringMatching(/Accept-Encoding/),
          ]);
          expect(gunzipSync(body).length).toBeGreaterThan(3 * body.length);
        }
        const page = await getOverHttp2('/');
        expect([page.status, page.headers['content-encoding']]).toEqual([200, undefined]);
        expect(page.body.toString()).toContain('<html');
        const missing = await getOverHttp2('/docs/assets/');
        expect([missing.status, missing.headers['content-encoding']]).toEqual([404, undefined]);

        const plain = await sendRequest(`http://127.0.0.1:${plainPort}/bin/45717360?a=b`, {
          headers: { host: 'other.example.com' },
        });
        expect([plain.status, plain.headers.location]).toEqual([308, `https://${HOST}/bin/45717360?a=b`]);
      } finally {
        await nginx.stop();
      }
    });

    test('speaks TLS, skips a dead process, and sets cookies only for https', async (context) => {
      skipIfMissing(context, missingNginx);
      const { nginx, get } = await start();
      try {
        expect((await get('/sign-in', '::1')).status).toBe(303);

        const signInResponse = await get('/sign-in');
        expect(signInResponse.status).toBe(303);
        expect(signInResponse.headers.location).toContain(site.sandbox.issuer);
        expect(signInResponse.headers['set-cookie']?.join()).toMatch(/^__Host-gatehouse-tx-[\w-]{6}=[^;]+;.*; Secure/);
        expect(signInResponse.headers['strict-transport-security']).toMatch(/max-age=\d{7,}/);

        // nginx calls both servers in turn, and skips the dead one.
        const responses = await Promise.all(Array.from({ length: 8 }, () => get('/threads/current')));
        expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 401));
      } finally {
        await nginx.stop();
      }
    });
  });
});

interface TlsRequest {
  host: string;
  port: number;
  path: string;
  cert: string;
}

function getOverTls({ cert, path, ...address }: TlsRequest): Promise<ReceivedResponse> {
  return new Promise((resolve, reject) => {
    const target = { ...address, path, servername: HOST, ca: cert, agent: false };
    const outgoing = request({ ...target, headers: { host: HOST, accept: '*/*' } }, (response) => {
      response.resume().on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          rawHeaders: response.rawHeaders,
          body: '',
        }),
      );
    });
    outgoing.on('error', reject).end();
  });
}
