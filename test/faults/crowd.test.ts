/** Many people on two processes, on one database file and on one Redis. */
import { describe } from 'vitest';
import { crowdSuite } from './crowd-suite.ts';

describe('R33, R48, F17, F18 with many people on SQLite', () => crowdSuite('SQLite'));
describe('R33, R48, F18 with many people on Redis', () => crowdSuite('Redis'));
