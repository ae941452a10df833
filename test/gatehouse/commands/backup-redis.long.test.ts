/** `backup` and `restore` of what a process keeps in Redis. */
import { testBackups } from './backup-suite.ts';

testBackups('Redis');
