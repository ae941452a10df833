/** The report of a long run: it tells what failed and what was not tried, and nothing of the machine but what its figures depend on. */
import { expect, test } from 'vitest';
import { faultsOf, type RunFacts, reliabilityText } from './reliability.ts';

const FACTS: RunFacts = {
  ...{ cores: 2, node: 'v26.10.0', system: 'linux x64' },
  files: {
    'test/faults/one.test.ts': {
      ranOn: '2026-11-21',
      commit: '0123456789',
      tests: [
        { name: 'suite > F2: two at once', state: 'passed' },
        { name: 'suite > F3: stopped', state: 'passed' },
        { name: 'suite > R35, F3: resumed', state: 'failed', failure: 'expected 503 to be 200' },
      ],
      tables: [
        {
          title: 'Faults on SQLite',
          rows: [
            { fault: 'F3: this | that', rounds: 3, seconds: 1.25, result: 'FAILED' },
            { fault: 'F2: both', rounds: 12, seconds: undefined, result: 'held: 200 answers' },
          ],
        },
      ],
    },
    'test/faults/two.test.ts': {
      ranOn: '2026-11-20',
      commit: 'abcdef0123+',
      tests: [
        { name: 'F1 to F22 at random > 600 s', state: 'passed' },
        { name: 'suite > F4: killed', state: 'skipped' },
      ],
      tables: [],
    },
  },
};
const FAULTS = faultsOf(
  '| R1 | ✓ | a promise |\n| F2 | ✓ | two at once | 1 hit |\n| F3 | ✓ | stopped | holds |\n| F4 |   | killed | 503 |',
);

test('tells of each fault how many tests tried it and how that went', () => {
  const text = reliabilityText(FACTS, FAULTS);
  expect(text).toContain('| F2 | two at once | 1 | held |');
  expect(text).toContain('| F3 | stopped | 2 | 1 FAILED |');
  expect(text).toContain('| F4 | killed | 0 | not tried |');
  expect(text).toContain(
    'Run on 2026-11-20, 2026-11-21, commits 0123456789, abcdef0123+, Node 26.10.0, 2 cores, linux x64: 3 tests passed, 1 failed, 1 skipped.',
  );
  expect(text).toContain('**1 did not hold**');
  expect(text).toContain('- suite > R35, F3: resumed: expected 503 to be 200');
  expect(text).not.toContain('Everything that was tried held');
});

test('has the table of every fault file, a line for each row', () => {
  const text = reliabilityText(FACTS, FAULTS);
  expect(text).toContain('## Faults on SQLite');
  expect(text).toContain('| F3: this \\| that | 3 | 1.3 | FAILED |');
  expect(text).toContain('| F2: both | 12 |  | held: 200 answers |');
});

test('says so where all held', () => {
  const { 'test/faults/two.test.ts': two } = FACTS.files;
  const text = reliabilityText({ ...FACTS, files: two ? { two } : {} }, FAULTS);
  expect(text).toContain('Everything that was tried held.');
  expect(text).toContain(
    'Run on 2026-11-20, commit abcdef0123+, Node 26.10.0, 2 cores, linux x64: 1 tests passed, 0 failed, 1 skipped.',
  );
});
