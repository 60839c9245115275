#!/usr/bin/env bash
# Runs the README's two commands in a minimal Debian, made by debootstrap and entered by
# chroot. It checks that scripts/deps.sh explains to a user without root what to do; that
# `make demo`, by a user with sudo, installs the missing packages, builds, and runs the
# quickstart on a real lab; that nothing of the lab is left; that a second scripts/deps.sh
# changes nothing and takes less than a second of CPU time; and that `make test` then
# passes. Needs root, debootstrap and a Debian mirror; takes half an hour. Not in CI.
#
#   test/deps/try-debootstrap.sh [--short] [suite]     default bookworm
#
# With --short (go test -short), tests of several minutes are skipped or repeat less often:
# those of rates over many seconds, of 1024 GPUs and of the calibration. Environment: MIRROR
# (default http://deb.debian.org/debian), KEEP=1 (keep the folder), and proxies.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
short=
if [ "${1:-}" = --short ]; then
  short=-short
  shift
fi
suite=${1:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
start=$SECONDS

say() { printf 'try-debootstrap: [%3ds] %s\n' "$((SECONDS - start))" "$*"; }
fail() {
  say "FAILED: $*"
  exit 1
}

[ "$(id -u)" -eq 0 ] || fail "root is needed for debootstrap and chroot"
command -v debootstrap >/dev/null || fail "install debootstrap first"
# With separate mount and process namespaces, all mounts and processes in the new root end
# with this script, even if it is killed.
[ "${1:-}" = --inside ] || exec unshare --mount --propagation private --pid --fork --kill-child "$0" ${short:+--short} --inside "$suite"
suite=$2

work=$(mktemp -d /tmp/netkvlab-deps.XXXXXX)
target=$work/root
cleanup() {
  for dir in dev/pts run sys proc; do umount -R "$target/$dir" 2>/dev/null || true; done
  umount "$target" 2>/dev/null || true
  # rm would also delete the contents of a remaining mount.
  if grep -q " ${target}[/ ]" /proc/self/mounts; then
    say "something is still mounted below $target: remove $work after a reboot"
  elif [ "${KEEP:-0}" = 1 ]; then
    say "left in place: $work"
  else
    rm -rf "$work"
  fi
}
trap cleanup EXIT

inside() { chroot "$target" /usr/bin/env -i HOME=/root TERM=dumb PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" "$@"; }
# shellcheck disable=SC2016 # dpkg-query expands these, not the shell
packages() { inside dpkg-query -W -f '${Package} ${Version}\n' | sort; }

say "making a minimal $suite"
# A mount of its own, as the root of a machine is: ip netns changes how it propagates.
mkdir "$target"
mount --bind "$target" "$target"
debootstrap --variant=minbase "$suite" "$target" "$mirror" >"$work/debootstrap.log" 2>&1 ||
  { tail -n 20 "$work/debootstrap.log"; fail "debootstrap"; }
mount -t proc proc "$target/proc"
mount -t sysfs sysfs "$target/sys"
mount -t tmpfs tmpfs "$target/run"
mkdir -p "$target/dev/pts"
mount -t devpts devpts "$target/dev/pts"
cp -L /etc/resolv.conf "$target/etc/resolv.conf"
echo "127.0.0.1 localhost $(uname -n)" >"$target/etc/hosts"
# A site's own certificate authorities, if it has any.
if [ -d /usr/local/share/ca-certificates ]; then
  mkdir -p "$target/usr/local/share"
  cp -r /usr/local/share/ca-certificates "$target/usr/local/share/"
fi
mkdir "$target/src"
git -C "$repo" ls-files -z --cached --others --exclude-standard | tar -C "$repo" --null -T - -cf - | tar -C "$target/src" -xf -

say "a user without sudo gets a clear answer"
if inside setpriv --reuid=65534 --regid=65534 --clear-groups bash /src/scripts/deps.sh >"$work/nobody.log" 2>&1; then
  fail "deps.sh claims success for a user who can install nothing"
fi
grep -q 'root is needed' "$work/nobody.log" || { cat "$work/nobody.log"; fail "no hint for a user without root"; }

say "--check names what is missing"
if inside bash /src/scripts/deps.sh --check >"$work/check.log" 2>&1; then fail "--check found nothing missing"; fi
cat "$work/check.log"

say "installing what README asks for: git, make and sudo"
inside sh -ec 'apt-get -qq update; apt-get -qq install -y --no-install-recommends git make sudo ca-certificates; useradd -m dev;
  echo "dev ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/dev; chown -R dev /src' >"$work/sudo.log" 2>&1 ||
  { cat "$work/sudo.log"; fail "installing git, make and sudo"; }
as_dev() { inside HOME=/home/dev setpriv --reuid=dev --regid=dev --init-groups "$@"; }

say "make demo, by a user with sudo"
as_dev make -C /src demo || fail "make demo"
say "go: $(as_dev bash /src/scripts/deps.sh --print-go)"

summary=$(find "$target/src/netkvlab-runs" -name summary.json)
[ -n "$summary" ] || fail "make demo left no run folder"
[ "$(stat -c %u "$summary" "$target/src/netkvlab-runs" | sort -u)" = "$(stat -c %u "$target/src")" ] ||
  fail "the run folder does not belong to the user who ran make demo"
grep -q '"verdict"' "$summary" || fail "$summary has no verdict"
say "verdict: $(sed -n 's/.*"verdict": *"\([a-z]*\)".*/\1/p' "$summary")"
left=$(find "$target/run/netns" "$target/run/netkvlab" -mindepth 1 2>/dev/null || true)
[ -z "$left" ] || fail "the lab left: $left"
if grep -sqx kvagent "$target"/proc/[0-9]*/comm; then fail "the lab left agents running"; fi

packages >"$work/before"
say "deps.sh again"
# CPU time, since the machine may have other work.
TIMEFORMAT='%3U %3S'
{ time as_dev bash /src/scripts/deps.sh 2>"$work/again.log"; } 2>"$work/times" || { cat "$work/again.log"; fail "the second deps.sh"; }
took=$(awk '{ printf "%d", 1000 * ($1 + $2) }' "$work/times")
packages | diff "$work/before" - || fail "the second run changed packages"
[ "$took" -lt 1000 ] || fail "the second run took $took ms of CPU time"
say "second run: nothing changed, $took ms of CPU time"
as_dev bash /src/scripts/deps.sh --check || fail "--check after installing"
say "$(as_dev /src/bin/netkvlab version | head -n 1)"

say "make test, by the same user${short:+ (shortened: TESTFLAGS=-short)}"
as_dev make -C /src test TESTFLAGS="$short" || fail "make test"
packages | diff "$work/before" - || fail "make test changed packages"
left=$(find "$target/run/netns" "$target/run/netkvlab" -mindepth 1 ! -name calibration.json 2>/dev/null || true)
[ -z "$left" ] || fail "the tests left: $left"
say "passed"
