/** Processes that are slow, stopped, killed and starved, on one database file and on one Redis. */
import { faultSuite } from './suite.ts';

faultSuite('SQLite');
faultSuite('Redis');
