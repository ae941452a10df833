#!/bin/sh
# Runs a command with the Node that npm installed for development, or else with the one on PATH.
# Newer npm links it into node_modules/.bin by itself; npm 9, of Debian 12 and Ubuntu 24.04, leaves that link out.
for directory in "$PWD"/node_modules/node-*/bin; do
  [ -x "$directory/node" ] && PATH="$directory:$PATH"
done
# Code that Node has compiled, for the next start. It is in node_modules, since a user who can write there can change the code anyway.
# Where it cannot be written, Node starts without it.
export NODE_COMPILE_CACHE="${NODE_COMPILE_CACHE-$PWD/node_modules/.cache/node-compile-cache}"
# Node looks up host names with at most half of these threads. With its default of four, two names whose servers do not
# respond would hold up all others. Node reads it before it runs any of our code.
export UV_THREADPOOL_SIZE="${UV_THREADPOOL_SIZE-64}"
# An older Node fails on the first line of TypeScript, with a message that does not say why.
if [ "$1" = node ]; then
  shift
  set -- node --require "$PWD/src/node.cjs" "$@"
fi
exec "$@"
