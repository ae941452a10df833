/** Many users on two processes and one Redis. */
import { describe } from 'vitest';
import { crowdSuite } from './crowd-suite.ts';

describe('R33, R48, F18 with many users on Redis', () => crowdSuite('Redis'));
