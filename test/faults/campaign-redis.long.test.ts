/** Mixed load and random faults, on Redis. */
import { campaignSuite } from './campaign-suite.ts';

campaignSuite('Redis');
