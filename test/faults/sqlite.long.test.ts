/** The faults of processes and their storage, on SQLite: several processes on one file. */
import { faultSuite } from './suite.ts';

faultSuite('SQLite');
