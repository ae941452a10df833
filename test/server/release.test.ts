/** The workflow that publishes a release: runs its shell steps with stand-ins for docker, cosign and gh. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { skipIfMissing } from '../support/missing.ts';
import { emptyFolder, runSteps } from './shown-steps.ts';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const IMAGE = 'ghcr.io/someone/gatehouse';

interface Step {
  name?: string;
  id?: string;
  uses?: string;
  run?: string;
  with?: Record<string, unknown>;
  env?: Record<string, string>;
}
interface Workflow {
  jobs: { release: { permissions: object; steps: Step[] } };
}

const script = 'import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))';
const parsed = spawnSync('/usr/bin/python3', ['-c', script], {
  input: read('.github/workflows/release.yml'),
  encoding: 'utf8',
});
const workflow: Workflow | undefined = parsed.status === 0 ? JSON.parse(parsed.stdout) : undefined;
const steps = workflow?.jobs.release.steps ?? [];
const at = (isWanted: (step: Step) => boolean) => steps.findIndex(isWanted);
const runOf = (part: string) => steps.find(({ run }) => run?.includes(part))?.run ?? '';

beforeEach((context) => skipIfMissing(context, workflow ? undefined : 'python3-yaml'));

/** Runs a step of the workflow for this tag, with the files of a release with this version and changelog. */
function run(step: string, tag: string, { version = tag.slice(1), changelog = read('CHANGELOG.md') } = {}) {
  const folder = emptyFolder();
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ version }));
  writeFileSync(join(folder, 'CHANGELOG.md'), changelog);
  const variables = {
    ...{ GITHUB_REF_NAME: tag, GITHUB_SERVER_URL: 'https://github.com', GITHUB_REPOSITORY: 'Someone/gatehouse' },
    ...{ GITHUB_OUTPUT: join(folder, 'output'), GITHUB_ENV: join(folder, 'env'), RUNNER_TEMP: folder },
    ...{ GITHUB_ACTOR: 'someone' },
    ...{ IMAGE, DIGEST: 'sha256:1', TOKEN: 'the-token' },
  };
  const settings = Object.entries(variables).map(([name, value]) => `export ${name}='${value}'`);
  const standIns = { docker: 'cat >> "$CALLED"', cosign: '', gh: '' };
  // GitHub runs each step with `bash -e`.
  const result = runSteps(['set -e', ...settings, step].join('\n'), { folder, standIns });
  const written = (name: string) => (existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '');
  return { ...result, output: written('output'), env: written('env'), notes: written('notes.md') };
}

describe('R90 the notes', () => {
  const CHANGELOG =
    '# Changelog\n\n## 1.2.0, 2027-01-02\n\n- New: [a](docs/a.md#b).\n\n## 1.1.0, 2027-01-01\n\n- Old.\n';

  test('are the section of the changelog, with links that work outside the repository', () => {
    const { status, output, notes } = run(runOf('awk'), 'v1.2.0', { changelog: CHANGELOG });
    expect([status, output]).toEqual([0, 'version=1.2.0\n']);
    expect(notes.trim()).toBe('- New: [a](https://github.com/Someone/gatehouse/blob/v1.2.0/docs/a.md#b).');
  });

  test('of the last release are complete', () => {
    const [, section = ''] = read('CHANGELOG.md').split(/^(?=## \d)/m);
    const [, version = ''] = /^## (\S+), /.exec(section) ?? [];
    const { notes } = run(runOf('awk'), `v${version}`);
    expect(notes.replaceAll(`https://github.com/Someone/gatehouse/blob/v${version}/`, '')).toBe(
      section.slice(section.indexOf('\n') + 1),
    );
  });

  test.each([
    ['a tag that is not the version of package.json', { version: '1.2.1', changelog: CHANGELOG }],
    ['a version without a section', { changelog: CHANGELOG.replace('1.2.0', '1.20') }],
    ['an empty section', { changelog: CHANGELOG.replace(/- New.*/, '') }],
  ])('stop the release: %s', (_name, files) => {
    const { status, output } = run(runOf('awk'), 'v1.2.0', files);
    expect([status, output]).toEqual([1, '']);
  });
});

describe('R90 the image', () => {
  test('is tested before it is pushed, and pushed from the same layers, with provenance and SBOM', () => {
    const builds = steps.filter(({ uses }) => uses?.startsWith('docker/build-push-action@'));
    expect(builds.map((step) => step.with)).toEqual([
      { context: '.', load: true, tags: 'gatehouse' },
      {
        ...{ context: '.', push: true, provenance: 'mode=max', sbom: true },
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the expressions of the workflow.
        tags: '${{ env.IMAGE }}:${{ steps.release.outputs.version }}',
        labels: expect.stringContaining('org.opencontainers.image.source='),
      },
    ]);
    const order = [
      ...[at(({ id }) => id === 'release'), at((step) => step.with?.load === true)],
      ...[at((step) => step.run?.includes('image-test -- gatehouse') === true), at(({ id }) => id === 'push')],
      ...[at((step) => step.run?.startsWith('cosign') === true), at((step) => step.run?.includes('gh ') === true)],
    ];
    expect(order.every((position) => position >= 0)).toBe(true);
    expect(order).toEqual(order.toSorted((left, right) => left - right));
  });

  test('is signed by its digest, with the identity of the workflow', () => {
    const step = steps.find((step) => step.run?.startsWith('cosign'));
    // biome-ignore lint/suspicious/noTemplateCurlyInString: an expression of the workflow.
    expect(step?.env).toEqual({ DIGEST: '${{ steps.push.outputs.digest }}' });
    expect(run(step?.run ?? '', 'v1.2.0').called).toEqual([`cosign sign --yes ${IMAGE}@sha256:1`]);
    expect(workflow?.jobs.release.permissions).toEqual({ contents: 'write', packages: 'write', 'id-token': 'write' });
  });

  test('goes to the registry of its name, whose token is on no command line', () => {
    expect(run(runOf('docker login'), 'v1.2.0').called).toEqual([
      'docker login ghcr.io --username someone --password-stdin',
      'the-token',
    ]);
  });

  test('has one name in the workflow, in compose.yaml, and in the documents', () => {
    // The registry refuses capitals, which the owner may have.
    expect(run(runOf('awk'), 'v1.0.0-rc.2').env).toBe(`IMAGE=${IMAGE}\n`);
    const files = ['compose.yaml', 'docs/kubernetes.yaml', 'docs/kubernetes.md', 'docs/deploy.md', 'SECURITY.md'];
    for (const file of files) expect(read(file), file).toContain('ghcr.io/OWNER/gatehouse:');
    const identity = 'https://github.com/OWNER/gatehouse/.github/workflows/release.yml@refs/tags/v';
    expect(read('SECURITY.md')).toContain(`--certificate-identity "${identity}$VERSION"`);
  });
});

test.each([
  ['v1.2.0', '--latest'],
  ['v2.0.0-rc.1', '--prerelease'],
])('the release of %s is %s', (tag, kind) => {
  const { status, called } = run(runOf('gh release'), tag);
  expect([status, called]).toEqual([
    0,
    [
      expect.stringMatching(
        `^gh release create ${tag} --verify-tag --title ${tag} --notes-file \\S+/notes.md ${kind}$`,
      ),
    ],
  ]);
});
