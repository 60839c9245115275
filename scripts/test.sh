#!/usr/bin/env bash
# Runs the tests in lanes and prints one report at the end.
#
#   scripts/test.sh LANE...     of: unit kernel timing e2e
#
#   unit    packages whose tests need no root; race detector, packages in parallel
#   kernel  packages whose tests make namespaces; root, race detector, one at a time
#   timing  the tests that measure rates and times: those in files that say
#           //go:build !race. Root, no race detector, one at a time, because the race
#           detector and other tests on the CPU would change the result
#   e2e     packages below test/: they run bin/netkvlab as a user would. Root
#
# The files of a package decide its lane (tools/testreport); there is no list to maintain.
# The module of tools/ is tested in the same lanes. If you are not root, the test binaries
# of the last three lanes run through sudo, and the build cache still belongs to you.
#
# The e2e lane also tests labs of containers. If no Docker engine answers and one is
# installed, the lane starts its own and stops it at the end (scripts/docker.sh).
#
# With CI=true a skip needs a line in test/allowed-skips.txt, and each test named in
# test/must-run.txt must have passed. NETKVLAB_MUST names features that this kernel must
# have: a test that misses one fails. TESTFLAGS is passed on to go test.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
go=${GO:-$(scripts/deps.sh --print-go)}
# Tests that call go find the one in use here.
PATH="$(dirname "$(command -v "$go")"):$PATH"
[ $# -gt 0 ] || {
  echo "usage: scripts/test.sh unit|kernel|timing|e2e ..." >&2
  exit 2
}

work=$(mktemp -d)
trap 'scripts/docker.sh stop "$work/docker"; rm -rf "$work"' EXIT
# Without the race detector, packages have the flags of `make build`, so they are compiled once.
GOFLAGS="$("$go" env GOFLAGS) -trimpath"
export GOFLAGS CGO_ENABLED=0
"$go" build -C tools -o "$work/testreport" ./testreport

run_root=()
if [ "$(id -u)" -ne 0 ]; then
  # sudo resets PATH even with --preserve-env.
  run_root=(-exec "sudo --preserve-env=CI,NETKVLAB_MUST,DOCKER_HOST env PATH=$PATH")
fi
read -r -a extra <<<"${TESTFLAGS:-}"

# lane NAME FLAG...: tests the lane's packages of both modules and appends their events
# to one file.
lane() {
  local name=$1 module list packages found=0
  shift
  for module in tools .; do
    list=$(cd "$module" && "$work/testreport" select -go "$go" "$name") || {
      echo "== $name: the packages of $module are not known, so they are not tested"
      failed=yes
      continue
    }
    [ -n "$list" ] || continue
    mapfile -t packages <<<"$list"
    [[ ${packages[0]} == -run=* ]] || packages=("" "${packages[@]}")
    found=$((found + ${#packages[@]} - 1))
    echo "== $name: $((${#packages[@]} - 1)) packages of $module"
    test_module "$module" "$name" "$@" ${packages[0]:+"${packages[0]}"} "${extra[@]}" "${packages[@]:1}"
  done
  [ "$found" -gt 0 ] || echo "== $name: no packages"
}

# test_module FOLDER LANE ARG...: one go test, reported as it goes.
test_module() {
  local rc=0
  "$go" test -C "$1" -json -count=1 -timeout 30m "${@:3}" 2>"$work/stderr" |
    "$work/testreport" watch -append "$work/events" -lane "$2" || rc=$?
  # A build error arrives in the events; what else go says comes out here.
  cat "$work/stderr" >&2
  [ "$rc" -eq 0 ] || failed=yes
}

# Lanes that make labs also measure them, so only one may run on a machine. The lock ends
# with this script; programs that the script starts do not inherit it.
alone() {
  exec {lock}>"${XDG_RUNTIME_DIR:-/tmp}/netkvlab-tests.$(id -u).lock"
  if ! flock --nonblock "$lock"; then
    echo "== waiting for another test run on this machine to end"
    flock "$lock"
  fi
  lane "$@" {lock}>&-
  flock --unlock "$lock"
}

failed=no
for name in "$@"; do
  case $name in
    unit) CGO_ENABLED=1 lane unit -race ;;
    kernel) CGO_ENABLED=1 alone kernel -race -p 1 "${run_root[@]}" ;;
    timing) alone timing -p 1 "${run_root[@]}" ;;
    e2e)
      engine=$(scripts/docker.sh start "$work/docker")
      [ -z "$engine" ] || export DOCKER_HOST=$engine
      alone e2e -p 1 "${run_root[@]}"
      ;;
    *)
      echo "unknown lane $name: unit, kernel, timing or e2e" >&2
      exit 2
      ;;
  esac
done

full=()
[ "$*" = "unit kernel timing e2e" ] && full=(-must test/must-run.txt)
touch "$work/events"
"$work/testreport" report -allow test/allowed-skips.txt "${full[@]}" "$work/events" || failed=yes
[ "$failed" = no ]
