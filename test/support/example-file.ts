/** Generates the example file of a table of settings: `.env.example`, and that of the BIN lookup service. */
import type { Setting, SettingTable } from '../../src/shared/config/setting.ts';

/** True for a setting without a default. */
export function isRequired({ schema }: Setting): boolean {
  return !schema.safeParse(undefined).success;
}

/** Lists every setting with its comment. A setting is commented out unless it is required. */
export function exampleFile(preamble: string, table: SettingTable): string {
  const lines = Object.entries(table).flatMap(([name, setting]) => {
    const shown = setting.example ?? textOfDefault(setting);
    const comment = setting.about === undefined ? [] : ['', ...commented(setting.about)];
    return [...comment, `${isRequired(setting) ? '' : '#'}${name}=${shown}`];
  });
  return `${[...commented(preamble), ...lines].join('\n')}\n`;
}

function commented(text: string): string[] {
  return text.split('\n').map((line) => (line === '' ? '' : `# ${line}`));
}

function textOfDefault({ schema }: Setting): string {
  const value = schema.safeParse(undefined).data;
  return Array.isArray(value) || typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
