#!/usr/bin/env bash
# Runs the tests in lanes and reports on all of them at the end.
#
#   scripts/test.sh LANE...     of: unit kernel timing e2e
#
#   unit    packages whose tests need no root; race detector, packages in parallel
#   kernel  packages whose tests make namespaces; root, race detector, one at a time
#   timing  the tests that measure rates and times: those in files that say
#           //go:build !race. Root, no race detector, one at a time, since the race
#           detector and a neighbour on the CPU would be measured too
#   e2e     packages below test/: they drive bin/netkvlab as a user would. Root
#
# Which package belongs to which lane is found in its files (tools/testreport), so no
# list can go stale. The module of tools/ is tested in the same lanes. As another user than root, the test binaries of the last three
# run through sudo and the build cache stays yours.
#
# The e2e lane also tests labs of containers: where no Docker engine answers and one is
# installed, one is started for it and stopped at the end (scripts/docker.sh).
#
# With CI=true a skip needs a line in test/allowed-skips.txt, and each test named in
# test/must-run.txt must have passed. NETKVLAB_MUST names features that the tests may
# not miss. TESTFLAGS is passed on to go test.
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
# What has no race detector is compiled with the flags of `make build`, so only once.
GOFLAGS="$("$go" env GOFLAGS) -trimpath"
export GOFLAGS CGO_ENABLED=0
"$go" build -C tools -o "$work/testreport" ./testreport

run_root=()
if [ "$(id -u)" -ne 0 ]; then
  # sudo resets PATH whatever it is told to keep.
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

# Lanes that make labs measure them too: one at a time on a machine. The lock ends with
# this script; what it starts does not inherit it.
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
