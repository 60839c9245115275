#!/usr/bin/env bash
# The virtual machine lane: a lab's whole life on Debian's stock kernel (see run.sh).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/run.sh" -f "$here/tiny.yaml" -f "$here/inside.sh" sh ./inside.sh
