/** Skips the tests that take too long to be run for every mutant. */
import { beforeEach } from 'vitest';
import { LEFT_OUT } from './rooms.ts';

beforeEach(({ task, skip }) => {
  if (LEFT_OUT.some((name) => name.test(task.name) || name.test(task.suite?.name ?? ''))) skip();
});
