#!/usr/bin/env bash
# The virtual machine lane: tests features that this host's kernel may lack (netem, RED,
# DCTCP, modules) and a lab's whole life, on Debian's stock kernel (see run.sh).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$here/../..
go=$("$repo/scripts/deps.sh" --print-go)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$repo" && CGO_ENABLED=0 "$go" test -c -o "$work/kernel.test" ./fabric/kernel)
VM_TIMEOUT=${VM_TIMEOUT:-300} "$here/run.sh" -f "$work/kernel.test" -f "$here/tiny.yaml" -f "$here/inside.sh" sh ./inside.sh
