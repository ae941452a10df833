/** A test runner for Stryker: that of Vitest, which runs no tests for mutants outside of the sample. */
import { chosenBy, type Mutant } from './sample.ts';

interface MutantRun {
  activeMutant: {
    fileName: string;
    location: Pick<Mutant, 'start' | 'end'>;
    mutatorName: string;
    replacement: string;
  };
}

interface TestRunner {
  mutantRun(options: MutantRun): Promise<unknown>;
}

interface Plugin {
  name: string;
  factory(injector: unknown): TestRunner;
}

// By a name that is no literal: the packages of this folder are installed only where mutation runs are made.
const PACKAGE: string = '@stryker-mutator/vitest-runner';
const vitest = ((await import(PACKAGE)) as { strykerPlugins: Plugin[] }).strykerPlugins.find(
  ({ name }) => name === 'vitest',
);

function createSamplingRunner(injector: unknown): TestRunner {
  if (!vitest) throw new Error(`${PACKAGE} has no runner named vitest.`);
  const runner = vitest.factory(injector);
  const run = runner.mutantRun.bind(runner);
  const isChosen = chosenBy(process.env);
  runner.mutantRun = async (options) => {
    const { fileName: file, location, mutatorName: mutator, replacement } = options.activeMutant;
    // An error counts neither for nor against the tests.
    if (isChosen({ file, ...location, mutator, replacement })) return run(options);
    return { status: 'error', errorMessage: 'not in the sample' };
  };
  return runner;
}
createSamplingRunner.inject = ['$injector'];

/** As Stryker looks for them in a plugin. */
export const strykerPlugins = [{ kind: 'TestRunner', name: 'sampling-vitest', factory: createSamplingRunner }];
