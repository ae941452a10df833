// Refuses a Node that is too old, in one sentence. It is CommonJS without newer syntax, so that old versions can run it, too.
'use strict';
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
