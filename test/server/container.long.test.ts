/** The container: runs the steps of the Dockerfile in an empty folder, and checks compose.yaml and docs/deploy.md. */

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  cpSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { builtinModules } from 'node:module';
import { type AddressInfo, BlockList, connect } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { dirname, join, matchesGlob, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/shared/config/config.ts';
import { sharedAssets } from '../../src/shared/pages/assets.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { checkStorageConfig } from '../../src/shared/storage/storage.ts';
import { LONG } from '../faults/report.ts';
import { killOnExit } from '../support/child-processes.ts';
import { startWithoutSandbox, type TestGatehouse } from '../support/gatehouse.ts';
import { skipIfMissing } from '../support/missing.ts';
import { missingNginx, startNginx } from '../support/nginx.ts';
import { freePort } from '../support/ports.ts';
import { missingRedis } from '../support/redis-server.ts';
import { sendRequest } from '../support/send-request.ts';
import { LONG_TIMEOUT, until } from '../support/until.ts';
import { emptyFolder, runSteps, sectionOf, stepsOf, writtenTo } from './shown-steps.ts';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const lines = read('Dockerfile').replaceAll('\\\n', ' ').split('\n');
const instructionsOf = (instruction: string) =>
  lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length + 1).trim());
/** The source paths of every COPY from this folder. */
const copiedPaths = instructionsOf('COPY')
  .filter((copy) => !copy.startsWith('--from'))
  .flatMap((copy) => copy.split(/\s+/).slice(0, -1));
const ignoredPatterns = read('.dockerignore')
  .split('\n')
  .filter((line) => /^[^#!*]/.test(line));
/** Returns true for a path that COPY does not find, because .dockerignore names it or its folder. */
const isLeftOut = (path: string) =>
  ignoredPatterns.some((pattern) => matchesGlob(path, pattern) || matchesGlob(path, `${pattern}/**`));
/** The environment that the image sets. */
const imageEnv = Object.fromEntries(
  instructionsOf('ENV').flatMap((line) => line.split(/\s+/).map((setting) => setting.split('=') as [string, string])),
);
/** The command that fills the cache of compiled code, as the user of the container. */
const compileCommand = /^USER .*\nRUN (.*)$/m.exec(lines.filter((line) => !line.startsWith('#')).join('\n'))?.[1] ?? '';
const healthCheck = JSON.parse(/CMD (\[.*\])$/.exec(instructionsOf('HEALTHCHECK')[0] ?? '')?.[1] ?? '[]') as string[];
const [program = '', ...programArguments] = JSON.parse(instructionsOf('CMD')[0] ?? '[]') as string[];

/** Returns the exit status of the health check of the image for this management port. */
function checkHealth(port: string): Promise<number | null> {
  const [, ...args] = healthCheck;
  const child = spawn(process.execPath, args, { env: { MANAGEMENT_PORT: port }, stdio: 'ignore' });
  return new Promise((resolve) => child.once('exit', resolve));
}

describe('R90 the Dockerfile', () => {
  test('runs Gatehouse as process 1 of an unprivileged user, with production packages only and no install scripts', () => {
    expect(instructionsOf('USER')).toEqual(['node']);

    // The image is named by its hash, because a tag can be moved.
    const bases = new Set(instructionsOf('FROM').map((image) => image.replace(' AS dependencies', '')));
    expect([...bases]).toEqual([expect.stringMatching(/^node:26\.\d+\.\d+-slim@sha256:[0-9a-f]{64}$/)]);
    expect(read('.github/dependabot.yml')).toMatch(/package-ecosystem: docker$/m);
    expect(instructionsOf('RUN')).toContain('npm ci --omit=dev --omit=optional');
    expect(read('.npmrc')).toContain('ignore-scripts=true');
    expect([program, ...programArguments]).toEqual(['node', 'src/server.ts']);
    expect(instructionsOf('ENV')[0]).toContain('HOST=0.0.0.0 MANAGEMENT_HOST=0.0.0.0');
  });

  test('stores compiled code in a folder of the image that other users cannot access, not in a volume', () => {
    expect(instructionsOf('RUN')).toContain(`install -d -o node -g node -m 700 /data ${imageEnv.NODE_COMPILE_CACHE}`);
    expect(instructionsOf('VOLUME')).toEqual(['/data']);
  });

  test('copies files that exist, and .dockerignore excludes all others', () => {
    for (const path of copiedPaths) expect(globSync(path, { cwd: root }), path).not.toEqual([]);
    const kept = [...read('.dockerignore').matchAll(/^!(.+)$/gm)].map(([, path]) => path);
    expect(kept.toSorted()).toEqual([...new Set(copiedPaths)].toSorted());

    for (const path of ['src/sandbox.ts', 'views/sandbox/login.eta', 'src/demo.ts']) {
      expect([existsSync(join(root, path)), isLeftOut(path)], path).toEqual([true, true]);
    }
    expect(isLeftOut('src/server.ts')).toBe(false);
  });

  test('installs every package that the sources import', () => {
    const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
    const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
    const imported = files
      .filter((path) => path.endsWith('.ts') && !path.endsWith('.d.ts') && !isLeftOut(join('src', path)))
      .flatMap((path) => [...read(join('src', path)).matchAll(/^import (?!type ).*?from '([^'.][^']*)'/gms)])
      .map(([, name = '']) => /^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name)
      .filter((name) => !name.startsWith('node:') && !builtinModules.includes(name));
    expect([...new Set(imported)].filter((name) => !(name in dependencies))).toEqual([]);
  });
});

describe('R90 the health check of the image', () => {
  let site: TestGatehouse;
  beforeAll(async () => {
    site = await startWithoutSandbox({ apps: [] });
  });
  afterAll(() => site?.close());

  test('ends with 0 while Gatehouse runs, and with 1 if it does not', async () => {
    expect(await checkHealth(site.env.MANAGEMENT_PORT ?? '')).toBe(0);
    expect(await checkHealth(String(await freePort()))).toBe(1);
  });
});

describe('compose.yaml', () => {
  const compose = read('compose.yaml');

  test('has a Redis that keeps every confirmed write, two replicas, and secrets in files', () => {
    expect(compose).toContain('redis-server - --appendonly yes --appendfsync always --maxmemory-policy noeviction');
    expect(compose).toMatch(/replicas: 2/);
    expect(compose).toMatch(/read_only: true\n\s+cap_drop: \[ALL\]/);

    for (const name of ['SESSION_SECRETS', 'ENCRYPTION_KEYS']) {
      expect(compose).toContain(`${name}_FILE: /run/secrets/`);
      expect(compose).not.toContain(`${name}:`);
    }
    expect(read('.gitignore')).toContain('secrets/');
  });

  test('R90 restricts each service: limits, no privileges, a read-only root, and logs of limited size', (context) => {
    const script = 'import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))';
    const { status, stdout } = spawnSync('/usr/bin/python3', ['-c', script], { input: compose, encoding: 'utf8' });
    skipIfMissing(context, status === 0 ? undefined : 'python3-yaml');
    const { services, secrets } = JSON.parse(stdout);
    expect(Object.keys(services)).toEqual(['redis', 'gatehouse', 'proxy']);

    for (const service of Object.values<Record<string, unknown>>(services)) {
      expect(service).toMatchObject({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        logging: { driver: 'json-file', options: { 'max-size': '10m', 'max-file': '5' } },
        deploy: { resources: { limits: { memory: expect.any(String), pids: expect.any(Number) } } },
      });
      for (const name of (service.secrets ?? []) as string[]) expect(secrets).toHaveProperty(name);
    }
    const secretFiles = Object.values<{ file: string }>(secrets).map(({ file }) => file.replace('./', ''));
    for (const file of secretFiles) expect(compose).toMatch(new RegExp(`^#.* ${file}\\b`, 'm'));
  });

  test('has a Redis that requires its password', async (context) => {
    skipIfMissing(context, missingRedis);
    const folder = emptyFolder();
    const [, lines = ''] = /^ {6}- \|\n((?: {8}.*\n)+)/m.exec(compose) ?? [];
    writeFileSync(join(folder, 'redis-password'), 'the-password-of-redis\n');
    const port = await freePort();
    const command = lines
      .replaceAll(/^ {8}/gm, '')
      .replaceAll('$$', '$')
      .replace('/run/secrets/', `${folder}/`)
      .replace(' <<END', ` --port ${port} <<END`);
    const redis = killOnExit(spawn('sh', ['-c', command], { cwd: folder, stdio: 'ignore' }));
    const ping = (env: Record<string, string>) =>
      spawnSync('redis-cli', ['-p', String(port), 'ping'], {
        env: { PATH: process.env.PATH ?? '', ...env },
        encoding: 'utf8',
      }).stdout;
    try {
      await expect.poll(() => ping({ REDISCLI_AUTH: 'the-password-of-redis' }), LONG_TIMEOUT).toBe('PONG\n');
      expect(ping({})).toContain('NOAUTH');
    } finally {
      redis.kill('SIGTERM');
      // Redis itself ends with 0 after it has saved. A shell in its place would be ended by the signal, or ignore it as
      // process 1.
      expect(await new Promise((resolve) => redis.once('exit', resolve))).toBe(0);
    }
  });

  test('R73 trusts only its proxy, at an address that no other container gets', () => {
    const settingMatching = (pattern: RegExp) => pattern.exec(compose)?.[1] ?? '';
    const proxy = settingMatching(/^ {6}TRUSTED_PROXIES: (\S+)$/m);
    expect(settingMatching(/^ {2}proxy:\n(?: {4}.*\n)*? {8}ipv4_address: (\S+)$/m)).toBe(proxy);

    const subnet = networkOf(settingMatching(/- subnet: (\S+)$/m));
    const assignedRange = networkOf(settingMatching(/^ +ip_range: (\S+)$/m));
    const gateway = settingMatching(/^ +gateway: (\S+)$/m);
    expect([proxy, gateway].map((address) => [subnet.check(address), assignedRange.check(address)])).toEqual([
      [true, false],
      [true, false],
    ]);
    expect(gateway).not.toBe(proxy);
  });

  test('R73 sends Gatehouse the address of the client, or the one from the proxy before it, and ignores other headers', async (context) => {
    skipIfMissing(context, missingNginx);
    const receivedAddresses: unknown[] = [];
    const replica = createServer((req, res) => {
      receivedAddresses.push(req.headers['x-forwarded-for']);
      res.end();
    });
    await new Promise<void>((resolve) => replica.listen(0, '127.0.0.1', resolve));
    const { port } = replica.address() as AddressInfo;
    const [, content = ''] = compose.split(/^ {4}content: \|\n/m);
    const forwardedThrough = async (change: (settings: string) => string) => {
      const listen = `127.0.0.1:${await freePort()}`;
      const settings = content
        .replaceAll('$$', '$')
        .replace(/^.*\bresolver .*$/m, '')
        .replace('gatehouse:3000 resolve', `127.0.0.1:${port}`)
        .replace('listen 8080', `listen ${listen}`);
      const request = () =>
        sendRequest(`http://${listen}/`, { headers: { 'x-forwarded-for': '198.51.100.1, 203.0.113.9' } });
      const nginx = await startNginx(change(settings), async () => (await request()).status === 200);
      await nginx.stop();
      return receivedAddresses.at(-1);
    };
    const realip = (trusted: string) => (settings: string) =>
      settings
        .replace(/#(set_real_ip_from) [\d.]+;/, (_all, name: string) => `${name} ${trusted};`)
        .replace('#real_ip_header', 'real_ip_header');
    try {
      expect(await forwardedThrough((settings) => settings)).toBe('127.0.0.1');
      expect(await forwardedThrough(realip('127.0.0.1'))).toBe('203.0.113.9');
      expect(await forwardedThrough(realip('172.30.99.1'))).toBe('127.0.0.1');
    } finally {
      replica.close();
    }
  });
});

describe('docs/deploy.md on containers', () => {
  const text = read('docs/deploy.md');

  test('replaces replicas only with healthy new ones, and leaves no volume behind', () => {
    const [steps = ''] = stepsOf(sectionOf(text, '### Two behind a proxy'));
    const run = (failing: string) => {
      const docker = `case "$*" in "${failing}"*) exit 1 ;; *ps\\ -q*) echo first; echo second ;; esac`;
      const { status, called } = runSteps(steps, { folder: emptyFolder(), standIns: { docker, sleep: '' } });
      return { status, ended: called.filter((call) => /^docker (?:stop|rm)/.test(call)) };
    };
    const ended = ['docker stop first', 'docker rm -v first', 'docker stop second', 'docker rm -v second'];
    expect(run('nothing')).toEqual({ status: 0, ended });
    expect(run('compose ps')).toEqual({ status: 1, ended: [] });
    expect(run('compose pull')).toEqual({ status: 1, ended: [] });
    expect(run('compose up')).toEqual({ status: 1, ended: [] });
    expect(run('stop')).toEqual({ status: 1, ended: ended.slice(0, 1) });
  });

  describe('runs one container', () => {
    const section = sectionOf(text, '### One container');
    const command = stepsOf(section)
      .join('\n')
      .replaceAll('\\\n', ' ')
      .match(/^docker run -d .*$/m)?.[0];
    const optionsOf = (name: string) =>
      [...(command ?? '').matchAll(new RegExp(` ${name} "?([^" ]+)"?`, 'g'))].map(([, value = '']) => value);
    const mounted = optionsOf('-v').map((volume) => volume.split(':'));

    test('without privileges, on a read-only file system, with data in a named volume, and ports only for this machine', () => {
      expect(command).toMatch(/ --read-only --cap-drop ALL --security-opt no-new-privileges /);
      expect(mounted.filter(([, , mode]) => mode !== 'ro')).toEqual([['gatehouse', instructionsOf('VOLUME')[0]]]);
      const ports = (instructionsOf('EXPOSE')[0] ?? '').split(' ').map((port) => `127.0.0.1:${port}:${port}`);
      expect(optionsOf('-p')).toEqual(ports);
    });

    test('with valid settings, and secrets in files that exist', () => {
      const file = writtenTo(section, optionsOf('--env-file')[0] ?? '');
      const env = Object.fromEntries(
        file
          .trimEnd()
          .split('\n')
          .map((line) => line.split('=') as [string, string]),
      );
      const createdFiles = new Set([...section.matchAll(/> (secrets\/\S+)/g)].map(([, path = '']) => `/run/${path}`));
      const readFile = (path: string) => {
        if (!createdFiles.has(path)) throw new Error(`No step creates ${path}.`);
        return path.endsWith('keys') ? generateEncryptionKey(new Date()) : randomBytes(48).toString('base64');
      };
      const { values, faults } = loadConfig({ env: { ...imageEnv, ...env }, readFile });
      expect([...faults, ...checkStorageConfig(values).faults]).toEqual([]);
      expect(Object.keys(env).filter((name) => /SECRETS$|KEYS$/.test(name))).toEqual([]);

      const targets = mounted.map(([, target = '']) => target);
      const namedPaths = [...createdFiles, values.connectedAppsFile ?? '', values.dataDirectory];
      expect(namedPaths.filter((path) => !targets.some((target) => `${path}/`.startsWith(`${target}/`)))).toEqual([]);
      expect(section).toContain(`--gateway ${values.trustedProxies[0]} `);
      expect(read('.gitignore')).toMatch(/^secrets\/$/m);
    });

    test('and docs/backup.md backs it up and restores it with the same settings and volumes', () => {
      const [, part = ''] = read('docs/backup.md').split('\n## Containers\n');
      const calls = stepsOf(part)
        .flatMap((steps) => steps.replaceAll('\\\n', ' ').split('\n'))
        .filter((line) => /docker (?:compose )?run /.test(line));
      expect(calls.length).toBe(4);

      for (const call of calls) {
        const [, folder = ''] = / -v "\$PWD\/backups:([^:"]+)(?::ro)?" /.exec(call) ?? [];
        expect(call).toMatch(
          new RegExp(` gatehouse +node src/cli\\.ts (?:backup|restore --replace) ${folder}/.+\\.backup`),
        );
        if (!call.includes('compose')) {
          expect(call).toContain(`--volumes-from gatehouse`);
          expect(call).toContain(`--env-file ${optionsOf('--env-file')[0]} `);
        }
      }
      const restores = stepsOf(part).filter((steps) => steps.includes(' restore '));
      /** Returns how many commands are called if Docker fails at the commands with this text. */
      const countCalls = (steps: string, failing: string) => {
        const docker = `case "$*" in *"${failing}"*) exit 1 ;; esac`;
        return runSteps(steps, { folder: emptyFolder(), standIns: { docker } }).called.length;
      };
      // Gatehouse must not start with half-restored data, and a restore must not run while Gatehouse runs.
      const counts = restores.map((steps) => ({
        withoutFailure: countCalls(steps, 'nothing'),
        ifRestoreFails: countCalls(steps, ' restore '),
        ifStopFails: countCalls(steps, 'stop'),
      }));
      const expected = { withoutFailure: 3, ifRestoreFails: 2, ifStopFails: 1 };
      expect(counts).toEqual([expected, expected]);
    });
  });
});

describe('R90 the steps of the Dockerfile, run in an empty folder', () => {
  /** The folder in place of the root of the image. */
  let image: string;
  let app: string;
  let envInImage: Record<string, string>;
  beforeAll(() => {
    image = mkdtempSync(join(tmpdir(), 'gatehouse-image-'));
    app = join(image, instructionsOf('WORKDIR').at(-1) ?? '');
    const filter = (path: string) => !isLeftOut(relative(root, path));
    for (const source of copiedPaths.flatMap((path) => globSync(path, { cwd: root })))
      cpSync(join(root, source), join(app, source), { recursive: true, filter });
    if (LONG) execFileSync('npm', ['ci', '--omit=dev', '--omit=optional'], { cwd: app, stdio: 'pipe' });
    else linkProductionPackages(app);
    // The paths of the image are below its folder here.
    const settings = Object.entries(imageEnv).map(([name, value]) => [
      name,
      value.startsWith('/') ? join(image, value) : value,
    ]);
    envInImage = { ...Object.fromEntries(settings), PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
    execFileSync('sh', ['-c', compileCommand], { cwd: app, env: envInImage, stdio: 'pipe' });
    mkdirSync(join(image, 'tmp'));
    writeFileSync(join(image, 'session-secrets'), randomBytes(48).toString('base64'));
  });
  afterAll(() => rmSync(image, { recursive: true, force: true }));

  test.each(['', '/apps/gatehouse'])(
    'starts, is healthy, listens everywhere, writes its data and compiled code alone, and stops under %j',
    async (path) => {
      const { DATA_DIR: data = '', NODE_COMPILE_CACHE: cache = '' } = envInImage;
      rmSync(data, { recursive: true, force: true });
      mkdirSync(data, { mode: 0o700 });
      const [port, managementPort] = [String(await freePort()), String(await freePort())];
      const env = {
        ...envInImage,
        PATH: dirname(process.execPath),
        TMPDIR: join(image, 'tmp'),
        PUBLIC_URL: `http://127.0.0.1:${port}${path}`,
        PORT: port,
        MANAGEMENT_PORT: managementPort,
        SESSION_SECRETS_FILE: join(image, 'session-secrets'),
        ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
      };
      const filesBefore = timesOfChanges(data, image);
      const child = spawn(program, programArguments, { cwd: app, env, stdio: ['ignore', 'ignore', 'inherit'] });
      const ended = new Promise((resolve) => child.once('exit', resolve));
      try {
        // Each check starts a process, so the first check waits until a port is open.
        await until(() => isReached('127.0.0.1', Number(managementPort)));
        await expect.poll(() => checkHealth(managementPort), { ...LONG_TIMEOUT, interval: 500 }).toBe(0);

        const page = await fetch(`${env.PUBLIC_URL}/`, { headers: { accept: 'text/html' } });
        expect(page.status).toBe(200);
        expect(await page.text()).toContain(`${path}${sharedAssets().path}/gatehouse.css`);
        expect((await fetch(`${env.PUBLIC_URL}/docs/relay`)).status).toBe(200);

        for (const host of otherAddresses()) {
          expect(await isReached(host, Number(port)), host).toBe(true);
          expect(await isReached(host, Number(managementPort)), host).toBe(true);
        }

        child.kill('SIGTERM');
        expect(await ended).toBe(0);
        expect(readdirSync(data)).not.toEqual([]);

        const changes = changesOf(filesBefore, timesOfChanges(data, image));
        const compiled = changes.filter((changed) => `${changed}/`.startsWith(`${cache}/`));
        expect(changes.filter((changed) => !compiled.includes(changed))).toEqual([]);
        // The start found its code in the cache. Only the code that the requests needed was compiled.
        expect(compiled.length).toBeLessThan(readdirSync(cache, { recursive: true }).length / 20);
      } finally {
        child.kill('SIGKILL');
      }
    },
  );
});

/** The packages that `npm ci --omit=dev --omit=optional` would install, without downloading them. */
function linkProductionPackages(folder: string): void {
  const { packages } = JSON.parse(read('package-lock.json')) as {
    packages: Record<string, { dev?: true; optional?: true; devOptional?: true }>;
  };
  for (const [path, { dev, optional, devOptional }] of Object.entries(packages)) {
    if (!/^node_modules\/(@[^/]+\/)?[^/]+$/.test(path) || dev || optional || devOptional) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    symlinkSync(join(root, path), join(folder, path));
  }
}

function networkOf(cidr: string): BlockList {
  const list = new BlockList();
  const [address = '', bits] = cidr.split('/');
  list.addSubnet(address, Number(bits));
  return list;
}

/** Addresses of this machine at which a listener on 127.0.0.1 is not reached. */
function otherAddresses(): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  const outer = addresses
    .filter(({ internal, family }) => !internal && family === 'IPv4')
    .map(({ address }) => address);
  // Linux has the whole network 127.0.0.0/8 for itself.
  return process.platform === 'linux' ? ['127.0.0.2', ...outer] : outer;
}

function isReached(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 5_000 });
    const finish = (reached: boolean) => () => {
      socket.destroy();
      resolve(reached);
    };
    socket.once('connect', finish(true)).once('error', finish(false)).once('timeout', finish(false));
  });
}

/** Returns every path below the folder with the time of its last change, except the paths of another folder. */
function timesOfChanges(excluded: string, folder: string): Map<string, number> {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path));
  const kept = paths.filter((path) => !`${path}/`.startsWith(`${excluded}/`));
  return new Map(kept.map((path) => [path, lstatSync(path).mtimeMs]));
}

function changesOf(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].filter((path) => before.get(path) !== after.get(path));
}
