/** Skips tests that need a missing program, and lists them at the end of the run. With CI=true such tests fail. */
import { spawnSync } from 'node:child_process';
import type { TestContext } from 'vitest';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

export const missingCurl = spawnSync('curl', ['--version']).status === 0 ? undefined : 'curl';

/** Call this in each test that needs a program. @param missing its name, such as `nginx`; undefined if installed */
export function skipIfMissing(context: Pick<TestContext, 'skip'>, missing: string | undefined): void {
  if (missing === undefined) return;
  if (process.env.CI === 'true')
    throw new Error(`With CI=true no test is skipped. This machine does not have ${missing}.`);
  context.skip(missing);
}

/** Prints tests that passed only at the second attempt, and missing programs with the number of skipped tests. */
export default class RemarksReporter implements Reporter {
  readonly #skipped = new Map<string, number>();
  readonly #retried: string[] = [];

  onTestCaseResult(test: TestCase): void {
    const result = test.result();
    if (result.state === 'passed' && result.errors?.length) {
      this.#retried.push(`${test.module.relativeModuleId} > ${test.fullName}\n  ${result.errors[0]?.message}`);
    }
    // Without a note, the test skipped itself or its suite failed. The other reporters print that.
    if (result.state !== 'skipped' || result.note === undefined) return;
    this.#skipped.set(result.note, (this.#skipped.get(result.note) ?? 0) + 1);
  }

  async onTestRunEnd(_modules: readonly TestModule[]): Promise<void> {
    // The other reporters print their summary at the same time.
    await new Promise((resolve) => setImmediate(resolve));
    for (const test of this.#retried) process.stdout.write(`Passed only at the second attempt: ${test}\n`);
    let total = 0;
    for (const count of this.#skipped.values()) total += count;
    if (total === 0) return;
    const programs = [...this.#skipped].map(([program, count]) => `${program} (${count})`).sort();
    process.stdout.write(
      `Not run: ${total} ${total === 1 ? 'test that needs' : 'tests that need'} ${programs.join(', ')}.\n`,
    );
  }
}
