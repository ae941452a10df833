/** Owns what happens where a test needs something that this machine lacks: it is skipped and says why; with CI=true it fails. */
import type { TestContext } from 'vitest';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

/** Call it before each test that needs the thing. @param why a sentence, or undefined where the thing is there */
export function skipWithout(context: Pick<TestContext, 'skip'>, why: string | undefined): void {
  if (why === undefined) return;
  if (process.env.CI === 'true') throw new Error(`With CI=true nothing is skipped. ${why}`);
  context.skip(why);
}

/** Prints, after everything else, how many tests were skipped and why. */
export default class SkippedReporter implements Reporter {
  readonly #counts = new Map<string, number>();

  onTestCaseResult(test: TestCase): void {
    const result = test.result();
    // Without a note it was the test's own doing, or its suite failed: both are told already.
    if (result.state !== 'skipped' || result.note === undefined) return;
    const why = result.note;
    this.#counts.set(why, (this.#counts.get(why) ?? 0) + 1);
  }

  async onTestRunEnd(_modules: readonly TestModule[]): Promise<void> {
    // The other reporters print their summary at the same time.
    await new Promise((resolve) => setImmediate(resolve));
    for (const [why, count] of this.#counts) process.stdout.write(`${count} tests did not run. ${why}\n`);
  }
}
