/** The version that the programs print and export is that of package.json. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createMetrics } from '../../src/shared/observability/metrics.ts';
import { startProgram } from '../support/program.ts';

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'));

test.each(['src/cli.ts', 'src/bin-lookup-service.ts'])(
  '%s --version prints the version, without any setting',
  async (file) => {
    const program = startProgram(['node', file, '--version'], {});
    expect([(await program.ended).status, program.stdout(), program.stderr()]).toEqual([0, `${version}\n`, '']);
  },
);

test('a gauge has the version and that of Node as labels', async () => {
  const text = await createMetrics().registry.metrics();
  expect(text).toContain(`gatehouse_build_info{version="${version}",node="${process.versions.node}"} 1`);
});
