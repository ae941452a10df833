/** For `node --import`: writes the packages that the process has loaded to standard error when it ends, as one line of JSON. */
import fs from 'node:fs';
import { registerHooks, syncBuiltinESMExports } from 'node:module';

const packages = new Set<string>();

function note(path: unknown): void {
  const [, name] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(String(path)) ?? [];
  if (name !== undefined) packages.add(name);
}

registerHooks({
  load(url, context, nextLoad) {
    note(url);
    return nextLoad(url, context);
  },
});

// A package of data is read without being loaded as a module.
const { readFileSync } = fs;
fs.readFileSync = ((...args: Parameters<typeof readFileSync>) => {
  note(args[0]);
  return readFileSync(...args);
}) as typeof readFileSync;
syncBuiltinESMExports();

process.on('exit', () => process.stderr.write(`${JSON.stringify([...packages])}\n`));
