/** Prints a table after a long run: for each fault of `docs/security.md`, how many tests tried it and the result. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';

const PROMISES = join(import.meta.dirname, '..', '..', 'docs', 'security.md');

/** Loaded only by the configuration of the long run. */
export default class ReliabilityReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const names = (state: 'passed' | 'failed') =>
      modules.flatMap(({ children }) => [...children.allTests(state)].map(({ fullName }) => fullName));
    process.stdout.write(`\n${faultTable(readFileSync(PROMISES, 'utf8'), names('passed'), names('failed'))}\n`);
  }
}

/** Returns a Markdown table. @param promises the text of `docs/security.md` @param passed test names, like `failed` */
export function faultTable(promises: string, passed: readonly string[], failed: readonly string[]): string {
  const rows = [...promises.matchAll(/^\| (F\d+) \|[^|]*\| ([^|]*) \|/gm)].map(([, number, fault]) => {
    // A heading such as "F1 to F22" is not a test of each fault.
    const tries = (name: string) => new RegExp(`\\b${number}\\b`).test(name.replaceAll(/\bF\d+ to F\d+\b/g, ''));
    const passedCount = passed.filter(tries).length;
    const failedCount = failed.filter(tries).length;
    let result = passedCount > 0 ? 'held' : 'not tried';
    if (failedCount > 0) result = `${failedCount} FAILED`;
    return `| ${number} | ${fault} | ${passedCount + failedCount} | ${result} |`;
  });
  return ['| | fault | tests | result |', '| --- | --- | ---: | --- |', ...rows].join('\n');
}
