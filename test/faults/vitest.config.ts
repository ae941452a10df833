/** The long run of `npm run faults`: every test file about a fault of the table, one after the other, with a report. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { shared } from '../vitest.config.ts';

const TESTS = join(import.meta.dirname, '..');
const FAULT = /\bF\d{1,2}\b/;
/** Files with additional rounds in a long run. */
const LONGER = /\bFAULTS\b/;
/** Other files with real processes under load. */
const PROCESSES = /[/-]processes\.long\.test\.ts$|\bcontainer\.long\.test\.ts$/;

const files = readdirSync(TESTS, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.test.ts') && !path.includes('node_modules'))
  .filter((path) => {
    const text = readFileSync(join(TESTS, path), 'utf8');
    return path.startsWith('faults') || PROCESSES.test(path) || FAULT.test(text) || LONGER.test(text);
  });

process.env.FAULTS = 'long';

export default defineConfig({
  test: {
    ...shared,
    root: join(TESTS, '..'),
    name: 'faults',
    include: files.map((path) => `test/${path}`),
    // Long enough to end only tests that hang: some rotate the keys of 100,000 grants, or run as long as configured.
    testTimeout: 7_200_000,
    // Deadlines in milliseconds are measured on an otherwise idle machine.
    maxWorkers: 1,
    reporters: ['default', join(TESTS, 'support', 'missing.ts'), join(import.meta.dirname, 'reliability.ts')],
  },
});
