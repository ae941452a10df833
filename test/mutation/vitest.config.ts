/** The tests of one room, one file after the other, the cheapest first. */
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { shared } from '../vitest.config.ts';
import { ROOMS } from './rooms.ts';

const root = join(import.meta.dirname, '..', '..');
const files = (ROOMS[process.env.MUTATION_ROOM ?? ''] ?? []).map((name) => `test/${name}.test.ts`);

class AsListed extends BaseSequencer {
  override async sort(specifications: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => files.findIndex((file) => moduleId.endsWith(`/${file}`));
    return specifications.toSorted((one, other) => place(one) - place(other));
  }
}

export default defineConfig({
  test: {
    ...shared,
    root,
    include: files,
    setupFiles: [...shared.setupFiles, join(import.meta.dirname, 'leave-out.ts')],
    maxWorkers: 1,
    // Without a change the slowest takes three seconds, and ten on a busy machine: a test that starved would count as one that noticed.
    testTimeout: 40_000,
    hookTimeout: 40_000,
    sequence: { sequencer: AsListed },
  },
});
