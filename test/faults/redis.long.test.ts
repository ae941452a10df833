/** The faults of processes and their storage, on Redis. */
import { faultSuite } from './suite.ts';

faultSuite('Redis');
