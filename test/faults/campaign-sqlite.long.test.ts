/** Mixed load and random faults, on SQLite. */
import { campaignSuite } from './campaign-suite.ts';

campaignSuite('SQLite');
