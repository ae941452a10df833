/** Owns `npm run gatehouse -- COMMAND`: what an operator does from a terminal. */
import { Command } from 'commander';
import { generateEncryptionKey } from './storage/key-ring.ts';

const program = new Command('npm run gatehouse --').description('Gatehouse on the command line.').showHelpAfterError();

const keys = program.command('keys').description('encryption keys of the vault');

keys
  .command('generate')
  .description('make a new key for ENCRYPTION_KEYS, and print it as kid:base64url')
  .option('--json', 'print {"kid", "key", "setting"} (use npm run -s)')
  .addHelpText(
    'after',
    '\nPut the new key first in ENCRYPTION_KEYS and keep the old ones behind it: the first seals, all open.',
  )
  .action(({ json }: { json?: true }) => {
    const setting = generateEncryptionKey(new Date());
    const [kid = '', key = ''] = setting.split(':');
    process.stdout.write(`${json ? JSON.stringify({ kid, key, setting }) : setting}\n`);
  });

await program.parseAsync();
