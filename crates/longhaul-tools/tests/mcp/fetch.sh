#!/usr/bin/env bash
# Puts two real MCP servers where the tests look for them. What is there already is not fetched again.
set -euo pipefail

version=2026.8.31
cache=${XDG_CACHE_HOME:-${HOME:?neither XDG_CACHE_HOME nor HOME is set}/.cache}/longhaul-test/mcp
mkdir -p "$cache"
# Two checkouts may be tested at the same time.
if command -v flock >/dev/null; then
    exec 9>"$cache/lock"
    flock 9
fi
[ "$(cat "$cache/version" 2>/dev/null)" = "$version" ] && exit 0
# What is half there would be taken for whole by the tests.
rm -rf "$cache/node_modules" "$cache/version"
npm install --prefix "$cache" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error >&2 \
    "@modelcontextprotocol/server-everything@$version" "@modelcontextprotocol/server-filesystem@$version"
for server in everything filesystem; do test -x "$cache/node_modules/.bin/mcp-server-$server"; done
echo "$version" >"$cache/version"
