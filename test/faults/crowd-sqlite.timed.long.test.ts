/** Many users on two processes and one database file. */
import { describe } from 'vitest';
import { crowdSuite } from './crowd-suite.ts';

describe('R33, R48, F17, F18 with many users on SQLite', () => crowdSuite('SQLite'));
