// Refuses a Node that is too old, in one sentence, and sets a flag of V8. It is CommonJS without newer syntax, so that old
// versions can run it, too. `--require` runs it before anything else is compiled.
'use strict';
// biome-ignore lint/style/useNodejsImportProtocol: Node 12 does not know it.
const { setFlagsFromString } = require('v8');
const { engines } = require('../package.json');

const MINIMUM = Number(/\d+/.exec(engines.node)[0]);
const EX_CONFIG = 78;

if (Number.parseInt(process.versions.node, 10) < MINIMUM) {
  process.stderr.write(
    `Gatehouse needs Node ${MINIMUM} or newer, and this is Node ${process.versions.node} (${process.execPath}): ` +
      'install a newer one from https://nodejs.org, or run "npm ci", which brings one for development.\n',
  );
  process.exit(EX_CONFIG);
}

// With hundreds of concurrent calls, V8 would begin to allocate what one call needs among the objects that last, and
// collect it two to three times as slowly. Code that was compiled without the flag is compiled again with it.
setFlagsFromString('--no-allocation-site-pretenuring');
