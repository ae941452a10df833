/** Implements `backup verify`. Loaded only when it runs. */
import { checkBackup } from './check-backup.ts';
import { readPlace } from './storage-place.ts';
import type { Terminal } from './terminal.ts';

/** `sealChecked`: the settings have keys, and the backup is sealed with them. @throws as `checkBackup` */
export async function verify(terminal: Terminal, file: string, lostKeys: readonly string[]) {
  const sealer = hasKeys(terminal) ? readPlace(terminal.source).sealer : undefined;
  return { ...(await checkBackup(terminal, file, { sealer, lostKeys })), sealChecked: sealer !== undefined };
}

const hasKeys = ({ source: { env } }: Terminal) =>
  [env.ENCRYPTION_KEYS, env.ENCRYPTION_KEYS_FILE].some((value) => value?.trim());
