#!/bin/sh
# Runs a command with the Node that npm installed, in front of any other on PATH, for a command and what it starts.
# Newer npm links it into node_modules/.bin by itself; npm 9, of Debian 12 and Ubuntu 24.04, leaves that link out.
for directory in "$PWD"/node_modules/node-*/bin; do
  [ -x "$directory/node" ] && PATH="$directory:$PATH"
done
exec "$@"
