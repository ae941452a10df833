/** Checks docs/kubernetes.yaml and docs/kubernetes.md: known settings, valid references, and no needless privileges. */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/shared/config/config.ts';
import { SETTINGS } from '../../src/shared/config/settings.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { checkStorageConfig } from '../../src/shared/storage/storage.ts';
import { startWithoutSandbox, type TestGatehouse } from '../support/gatehouse.ts';
import { skipIfMissing } from '../support/missing.ts';
import { programsOf, stepsOf } from './shown-steps.ts';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const text = read('docs/kubernetes.md');
const yaml = parse('docs/kubernetes.yaml');
const missingYaml = yaml === undefined ? 'python3-yaml' : undefined;

/** The documents of a YAML file, or undefined without a parser. */
function parse(path: string): Record<string, unknown>[] | undefined {
  const script = 'import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))';
  const { status, stdout } = spawnSync('/usr/bin/python3', ['-c', script], { input: read(path), encoding: 'utf8' });
  return status === 0 ? JSON.parse(stdout) : undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: the shape of each kind is what these tests check.
type Resource = any;
const kind = (name: string): Resource => yaml?.find((resource) => resource.kind === name);
const pod = (): Resource => kind('Deployment').spec.template;
const container = (): Resource => pod().spec.containers[0];

beforeEach((context) => skipIfMissing(context, missingYaml));

test('the manifest has each resource once, all in one namespace', () => {
  const kinds = yaml?.map((resource) => resource.kind);
  expect(kinds).toEqual(['Namespace', 'ConfigMap', 'Deployment', 'Service', 'PodDisruptionBudget', 'NetworkPolicy']);
  const namespaces = yaml?.slice(1).map(({ metadata }: Resource) => metadata.namespace);
  expect(new Set(namespaces)).toEqual(new Set([kind('Namespace').metadata.name]));
});

describe('the settings in the manifest', () => {
  test('exist, are valid, and find each secret in a file that docs/kubernetes.md creates', () => {
    const data: Record<string, string> = kind('ConfigMap').data;
    expect(container().envFrom).toEqual([{ configMapRef: { name: kind('ConfigMap').metadata.name } }]);

    const settings = Object.keys(data).map((name) => (name in SETTINGS ? name : name.replace(/_FILE$/, '')));
    expect(settings.filter((name) => !(name in SETTINGS))).toEqual([]);

    const createdFiles = [...text.matchAll(/--from-file=(\S+)/g)].map(([, name = '']) => name);
    const { secrets, apps } = mounts();
    const readFile = (path: string) => {
      const name = path.slice(secrets.mountPath.length + 1);
      if (!path.startsWith(`${secrets.mountPath}/`) || !createdFiles.includes(name))
        throw new Error(`Nothing has created ${path}.`);
      const values: Record<string, string> = {
        'session-secrets': randomBytes(48).toString('base64'),
        'encryption-keys': generateEncryptionKey(new Date()),
        'redis-url': /^echo '(redis\S+)' > redis-url$/m.exec(text)?.[1] ?? '',
      };
      return values[name] ?? '';
    };
    const image = /^ENV (.+)$/m.exec(read('Dockerfile'))?.[1] ?? '';
    const env = { ...Object.fromEntries(image.split(' ').map((entry) => entry.split('='))), ...data };
    const refused = loadConfig({ env, readFile }).faults;
    expect(refused).toEqual([expect.stringContaining('TRUSTED_PROXIES')]);

    const { values, faults } = loadConfig({ env: { ...env, TRUSTED_PROXIES: '10.0.3.7' }, readFile });
    expect([...faults, ...checkStorageConfig(values).faults]).toEqual([]);
    expect(values.redis).toBeDefined();
    expect(values.connectedAppsFile).toBe(`${apps.mountPath}/connected-apps.json`);
    expect(text).toContain(`"file": "${secrets.mountPath}/client-secret"`);

    for (const name of ['connected-apps.json', 'client-secret']) expect(createdFiles).toContain(name);
  });

  test('contain no secret, and neither do environment variables', () => {
    const secret = Object.entries(SETTINGS).flatMap(([name, setting]) => ('secret' in setting ? [name] : []));
    expect(Object.keys(kind('ConfigMap').data).filter((name) => secret.includes(name))).toEqual([]);
    expect(container().env).toBeUndefined();

    const { secrets, apps } = mounts();
    expect([secrets.readOnly, apps.readOnly]).toEqual([true, true]);
    expect(text).toContain(`create secret generic ${volume('secrets').secret.secretName} `);
    expect(text).toContain(`create configmap ${volume('apps').configMap.name} `);
  });
});

test('R90 the pod meets the restricted profile of the pod security standards', () => {
  expect(kind('Namespace').metadata.labels['pod-security.kubernetes.io/enforce']).toBe('restricted');
  expect(pod().spec.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
  expect(container().securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  });
  expect(pod().spec.automountServiceAccountToken).toBe(false);
  expect(container().resources).toMatchObject({ requests: { cpu: '250m' }, limits: { memory: '1Gi' } });
});

test('R90 the grace period covers the longest stop and the delay before it', () => {
  const [, graceSeconds] = /^ {4}stop_grace_period: (\d+)s$/m.exec(read('compose.yaml')) ?? [];
  const delay = Number(kind('ConfigMap').data.SHUTDOWN_DELAY_SECONDS);
  const { periodSeconds, failureThreshold } = container().readinessProbe;
  expect(delay).toBeGreaterThan(2 * periodSeconds * failureThreshold);
  expect(pod().spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(Number(graceSeconds) + delay);
  expect(kind('Deployment').spec.strategy.rollingUpdate).toEqual({ maxSurge: 1, maxUnavailable: 0 });
});

test('every selector matches the pod, and every port name refers to a port of the pod', () => {
  const { labels } = pod().metadata;
  const spread = pod().spec.topologySpreadConstraints[0].labelSelector.matchLabels;
  const selected = ['Deployment', 'PodDisruptionBudget'].map((name) => kind(name).spec.selector.matchLabels);
  const others = [kind('Service').spec.selector, kind('NetworkPolicy').spec.podSelector.matchLabels, spread];
  for (const selector of [...selected, ...others]) expect(selector).toEqual(labels);
  const ports = Object.fromEntries(container().ports.map((port: Resource) => [port.name, port.containerPort]));
  const exposed = /^EXPOSE (.+)$/m.exec(read('Dockerfile'))?.[1]?.split(' ').map(Number);
  expect(ports).toEqual({ http: exposed?.[0], management: exposed?.[1] });
  expect(kind('Service').spec.ports).toEqual([{ name: 'http', port: 80, targetPort: 'http' }]);
});

test('the network policy opens the management port only to the namespace of the monitoring', () => {
  const [requests, metrics] = kind('NetworkPolicy').spec.ingress;
  expect(requests).toEqual({ ports: [{ port: 'http', protocol: 'TCP' }] });
  expect(metrics.ports).toEqual([{ port: 'management', protocol: 'TCP' }]);
  expect(metrics.from).toHaveLength(1);
  expect(kind('NetworkPolicy').spec.policyTypes).toEqual(['Ingress']);
});

describe('the probes of the pod', () => {
  let site: TestGatehouse;
  beforeAll(async () => {
    site = await startWithoutSandbox({ apps: [] });
  });
  afterAll(() => site?.close());

  test('request existing paths of the management port for liveness and readiness', async () => {
    const { startupProbe, livenessProbe, readinessProbe } = container();
    const paths = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => [httpGet.port, httpGet.path]);
    expect(paths).toEqual([...Array(2).fill(['management', '/healthz']), ['management', '/readyz']]);
    for (const [, path] of paths) expect((await fetch(site.managementUrl + path)).status).toBe(200);
  });
});

test('docs/kubernetes.md calls only programs that an operator of a cluster has', () => {
  const called = new Set(stepsOf(text).flatMap(programsOf));
  expect(called).toEqual(new Set(['umask', 'openssl', 'docker', 'echo', 'kubectl']));
});

function volume(name: string): Resource {
  return pod().spec.volumes.find((entry: Resource) => entry.name === name);
}

function mounts(): Record<'secrets' | 'apps', { mountPath: string; readOnly: boolean }> {
  const volumeMounts = container().volumeMounts as { name: string; mountPath: string; readOnly: boolean }[];
  expect(volumeMounts.map(({ name }) => name)).toEqual(pod().spec.volumes.map((entry: Resource) => entry.name));
  return Object.fromEntries(volumeMounts.map((mount) => [mount.name, mount])) as unknown as ReturnType<typeof mounts>;
}
