/** For `node --import`: at exit, prints the packages that were loaded to standard error, as one line of JSON. */
import fs from 'node:fs';
import { registerHooks, syncBuiltinESMExports } from 'node:module';

const packages = new Set<string>();

/** A package whose version is read is not loaded. */
function record(path: unknown): void {
  if (String(path).endsWith('/package.json')) return;
  const [, name] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(String(path)) ?? [];
  if (name !== undefined) packages.add(name);
}

registerHooks({
  load(url, context, nextLoad) {
    record(url);
    return nextLoad(url, context);
  },
});

// Packages of data are read, not loaded as modules.
const { readFileSync } = fs;
fs.readFileSync = ((...args: Parameters<typeof readFileSync>) => {
  record(args[0]);
  return readFileSync(...args);
}) as typeof readFileSync;
syncBuiltinESMExports();

process.on('exit', () => process.stderr.write(`${JSON.stringify([...packages])}\n`));
