#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (default 20s) each.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
go=${GO:-$(scripts/deps.sh --print-go)}
count=0
while read -r package; do
  while read -r target; do
    echo "== $package $target"
    "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-20s}" "$package"
    count=$((count + 1))
  done < <("$go" test -list '^Fuzz' "$package" | grep '^Fuzz' || true)
done < <("$go" list ./...)
echo "$count fuzz targets ran"
[ "$count" -gt 0 ]
