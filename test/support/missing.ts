/** Skips a test that needs a program which this machine lacks, or with CI=true fails it, and says so at the end of the run. */
import type { TestContext } from 'vitest';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

/** Call it before each test that needs the program. @param missing its name, such as `nginx`; undefined where it is there */
export function skipWithout(context: Pick<TestContext, 'skip'>, missing: string | undefined): void {
  if (missing === undefined) return;
  if (process.env.CI === 'true') throw new Error(`With CI=true no test is skipped. This machine lacks ${missing}.`);
  context.skip(missing);
}

/** Prints which tests passed only at the second attempt and, as the last line, which programs are missing and for how many tests. */
export default class RemarksReporter implements Reporter {
  readonly #skipped = new Map<string, number>();
  readonly #retried: string[] = [];

  onTestCaseResult(test: TestCase): void {
    const result = test.result();
    if (result.state === 'passed' && result.errors?.length) {
      this.#retried.push(`${test.module.relativeModuleId} > ${test.fullName}\n  ${result.errors[0]?.message}`);
    }
    // Without a note the test skipped itself, or its suite failed: the other reporters print both.
    if (result.state !== 'skipped' || result.note === undefined) return;
    this.#skipped.set(result.note, (this.#skipped.get(result.note) ?? 0) + 1);
  }

  async onTestRunEnd(_modules: readonly TestModule[]): Promise<void> {
    // The other reporters print their summary at the same time.
    await new Promise((resolve) => setImmediate(resolve));
    for (const test of this.#retried) process.stdout.write(`Passed only at the second attempt: ${test}\n`);
    const total = [...this.#skipped.values()].reduce((sum, count) => sum + count, 0);
    if (total === 0) return;
    const programs = [...this.#skipped].map(([program, count]) => `${program} (${count})`).sort();
    process.stdout.write(
      `Not run: ${total} ${total === 1 ? 'test that needs' : 'tests that need'} ${programs.join(', ')}.\n`,
    );
  }
}
