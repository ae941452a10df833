/** Stryker's settings: see https://stryker-mutator.io/docs/stryker-js/configuration/ for each. */
import { AGAIN } from './sample.ts';

export default {
  // Here, because the command line would split it at the comma. The same tests judge `sign-in` and `sign-in-record`.
  mutate: [`src/${process.env.MUTATION_ROOM}{,-record}/**/*.ts`],
  testRunner: 'sampling-vitest',
  plugins: ['@stryker-mutator/vitest-runner', './test/mutation/sampling-runner.ts'],
  vitest: { configFile: 'test/mutation/vitest.config.ts', related: false },
  // A mutant is tried with the tests that reach it. What is reached while a file is loaded or a server started for several tests
  // belongs to none of them: it is tried with all tests, which takes long, so only where it is asked for once more.
  coverageAnalysis: 'perTest',
  ignoreStatic: process.env[AGAIN] === undefined,
  disableTypeChecks: false,
  // Stryker would read it with a TypeScript older than ours; there is nothing in it that it needs.
  tsconfigFile: 'none.json',
  concurrency: 1,
  timeoutMS: 20_000,
  timeoutFactor: 2,
  // On a busy machine all tests of a room take longer than the five minutes that Stryker allows.
  dryRunTimeoutMinutes: 30,
  cleanTempDir: 'always',
  ignorePatterns: ['/data', '/coverage', '/test/mutation/reports'],
  reporters: ['json', 'progress-append-only'],
  jsonReporter: { fileName: 'test/mutation/reports/stryker.json' },
};
