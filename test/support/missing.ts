/** Skips a test that needs what this machine lacks, or with CI=true fails it; reports what was skipped or tried again. */
import type { TestContext } from 'vitest';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

/** Call it before each test that needs the thing. @param why a sentence, or undefined where the thing is there */
export function skipWithout(context: Pick<TestContext, 'skip'>, why: string | undefined): void {
  if (why === undefined) return;
  if (process.env.CI === 'true') throw new Error(`With CI=true nothing is skipped. ${why}`);
  context.skip(why);
}

/** Prints, after everything else, how many tests were skipped and why, and which passed only at the second attempt. */
export default class RemarksReporter implements Reporter {
  readonly #counts = new Map<string, number>();
  readonly #triedAgain: string[] = [];

  onTestCaseResult(test: TestCase): void {
    const result = test.result();
    if (result.state === 'passed' && result.errors?.length) {
      this.#triedAgain.push(`${test.module.relativeModuleId} > ${test.fullName}\n  ${result.errors[0]?.message}`);
    }
    // Without a note the test skipped itself, or its suite failed: the other reporters print both.
    if (result.state !== 'skipped' || result.note === undefined) return;
    const why = result.note;
    this.#counts.set(why, (this.#counts.get(why) ?? 0) + 1);
  }

  async onTestRunEnd(_modules: readonly TestModule[]): Promise<void> {
    // The other reporters print their summary at the same time.
    await new Promise((resolve) => setImmediate(resolve));
    for (const [why, count] of this.#counts) process.stdout.write(`${count} tests did not run. ${why}\n`);
    for (const test of this.#triedAgain) process.stdout.write(`Passed only at the second attempt: ${test}\n`);
  }
}
