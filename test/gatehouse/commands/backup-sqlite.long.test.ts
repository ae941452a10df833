/** `backup` and `restore` of what a process keeps in SQLite. */
import { testBackups } from './backup-suite.ts';

testBackups('SQLite');
