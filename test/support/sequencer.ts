/** The order in which test files start: the longest first, so that none is left running alone at the end. */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Of each group those that take longest. Those that mostly wait stand between those that load the machine. */
const LONGEST = [
  'faults/sqlite',
  'commands/backup-redis',
  'faults/redis',
  'commands/backup-sqlite',
  'faults/crowd-redis',
  'commands/migrate',
  'faults/pressure',
  'faults/redis-loss',
  'storage/redis/cluster',
  'commands/keys',
  'relay/processes',
  'faults/campaign',
  'storage/redis/faults',
  'faults/crowd-sqlite',
  'faults/fuzz',
  'storage/redis/store',
  'sign-in/hostile-answers',
  'journeys/browser',
];

const place = ({ moduleId }: TestSpecification): number => {
  const at = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
  return at < 0 ? LONGEST.length : at;
};

export class LongestFirst extends BaseSequencer {
  /** Groups stay one after the other, and all others in the order of their size. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const group = ({ project }: TestSpecification) => project.config.sequence.groupOrder;
    return sorted.toSorted((a, b) => group(a) - group(b) || place(a) - place(b));
  }
}
