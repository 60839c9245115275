#!/usr/bin/env bash
# Tries scripts/deps.sh where nothing is installed: a minimal Debian made by
# debootstrap, entered by chroot. It checks that the script installs what is missing,
# through sudo, that a second run changes nothing and takes under a second, that
# `make build` then works with the Go that was installed, and that a user without
# root is told what to do. Needs root, debootstrap and a Debian mirror; takes some minutes. Not in CI.
#
#   test/deps/try-debootstrap.sh [suite]     default bookworm
#
# MIRROR (default http://deb.debian.org/debian) and KEEP=1 (leave the folder) are read
# from the environment, and proxies are passed on.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
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

work=$(mktemp -d /tmp/netkvlab-deps.XXXXXX)
target=$work/root
cleanup() {
  umount "$target/proc" 2>/dev/null || true
  # rm would follow into a mount that is still there.
  if mountpoint -q "$target/proc"; then
    say "$target/proc is still mounted: unmount it and remove $work"
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
debootstrap --variant=minbase "$suite" "$target" "$mirror" >"$work/debootstrap.log" 2>&1 ||
  { tail -n 20 "$work/debootstrap.log"; fail "debootstrap"; }
mount -t proc proc "$target/proc"
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

inside sh -ec 'apt-get -qq update; apt-get -qq install -y --no-install-recommends sudo; useradd -m dev;
  echo "dev ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/dev; chown -R dev /src' >"$work/sudo.log" 2>&1 ||
  { cat "$work/sudo.log"; fail "installing sudo"; }
as_dev() { inside HOME=/home/dev setpriv --reuid=dev --regid=dev --init-groups "$@"; }

say "first run, by a user with sudo"
as_dev bash /src/scripts/deps.sh
say "go: $(as_dev bash /src/scripts/deps.sh --print-go)"

packages >"$work/before"
say "second run"
t0=$(date +%s%N)
as_dev bash /src/scripts/deps.sh
took=$((($(date +%s%N) - t0) / 1000000))
packages | diff "$work/before" - || fail "the second run changed packages"
[ "$took" -lt 1000 ] || fail "the second run took $took ms"
say "second run: nothing changed, $took ms"
as_dev bash /src/scripts/deps.sh --check || fail "--check after installing"

say "make build"
as_dev make -C /src build
say "$(as_dev /src/bin/netkvlab version | head -n 1)"
say "passed"
