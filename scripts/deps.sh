#!/usr/bin/env bash
# Installs what netkvlab needs on Debian or Ubuntu, and nothing that is already
# installed: a second run changes nothing. It never asks a question. Run it as root or
# as a user who may use sudo. scripts/commands.txt lists what is needed.
#
#   scripts/deps.sh                what building, running and testing need
#   scripts/deps.sh --with-docker  Docker too (only `--runtime docker` and its tests want it)
#   scripts/deps.sh --check        install nothing; exit 1 and name what is missing
#   scripts/deps.sh --print-go     print the go command that can build this module, or "go"
#
# Go: any `go` in PATH or /usr/local/go that can build this module is used as it is,
# also one that upgrades itself (Go 1.21 or newer, GOTOOLCHAIN not "local").
# Otherwise an older Go, such as the distribution's, fetches the toolchain that go.mod
# asks for, as the module golang.org/toolchain. A Go that upgrades itself does the same.
# The module is checked against Go's checksum database and put into
# /usr/local/lib/netkvlab/go, where it replaces no other Go.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
goroot=/usr/local/lib/netkvlab/go

say() { printf 'deps: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo -- "$@"
  else
    die "root is needed for: $* (run this script as root, or install sudo)"
  fi
}

wanted_go() { awk '$1 == "go" { print $2; exit }' "$root/go.mod"; }

# at_least A B: version A is B or newer.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# has CMD: also for users whose PATH lacks the sbin folders.
has() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; }

# go_version CMD prints 1.26.0 for go1.26.0, as that command answers with no upgrade.
go_version() { (cd / && GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null | sed 's/^go//; s/[^0-9.].*//'); }

# good_go prints the first go that builds this module, if necessary after an upgrade of itself.
good_go() {
  local cmd version wanted upgrade=
  wanted=$(wanted_go)
  for cmd in "$(command -v go || true)" /usr/local/go/bin/go "$goroot/bin/go"; do
    [ -x "$cmd" ] || continue
    version=$(go_version "$cmd")
    [ -n "$version" ] || continue
    if at_least "$version" "$wanted"; then
      printf '%s\n' "$cmd"
      return 0
    fi
    if [ -z "$upgrade" ] && at_least "$version" 1.21 && [ "$(cd / && "$cmd" env GOTOOLCHAIN)" != local ]; then
      upgrade=$cmd
    fi
  done
  [ -n "$upgrade" ] && printf '%s\n' "$upgrade"
}

# missing_packages prints the Debian packages whose commands or files are absent.
missing_packages() {
  local command package who
  while read -r command package who; do
    case $command:$who in
      \#* | :) continue ;;
      *:docker) [ "$with_docker" = yes ] || continue ;;
      *:extra) continue ;;
    esac
    has "$command" || echo "$package"
  done <"$root/scripts/commands.txt" | sort -u
  # The race detector links against the C library's headers.
  [ -e /usr/include/stdlib.h ] || echo libc6-dev
  [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
}

apt_updated=no
apt_install() {
  command -v apt-get >/dev/null ||
    die "no apt-get here: install these yourself: $* (netkvlab is tried on Debian 12 and Ubuntu 24.04)"
  if [ "$apt_updated" = no ]; then
    say "updating the package lists"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq || die "apt-get update did not work: see above"
    apt_updated=yes
  fi
  say "installing: $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
    die "apt-get could not install: $*"
}

# fetch_go uses an older go to download the toolchain of go.mod and puts it into $goroot.
fetch_go() {
  local old=$1 version arch module work dir
  version=$(wanted_go)
  case $(uname -m) in
    x86_64) arch=amd64 ;;
    aarch64) arch=arm64 ;;
    *) die "no Go toolchain is fetched for $(uname -m): install go $version or newer" ;;
  esac
  module="golang.org/toolchain@v0.0.1-go$version.linux-$arch"
  work=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder's name is known now
  trap "rm -rf '$work'" EXIT
  say "fetching $module with $("$old" env GOVERSION)"
  (cd "$work" && GO111MODULE=on GOTOOLCHAIN=local GOFLAGS=-modcacherw GOMODCACHE="$work/mod" \
    "$old" mod download "$module" >&2) ||
    die "could not fetch go $version: install it by hand (https://go.dev/dl) and put it in PATH"
  dir="$work/mod/$module"
  # Module zips carry no file modes.
  find "$dir/bin" "$dir/pkg/tool" -type f -exec chmod 0755 {} +
  say "installing go $version in $goroot"
  # The folder belongs to this script, so it replaces an older toolchain there.
  as_root mkdir -p "$(dirname "$goroot")"
  as_root rm -rf "$goroot.new" "$goroot"
  as_root cp -r "$dir" "$goroot.new"
  as_root chown -R 0:0 "$goroot.new"
  as_root mv -T "$goroot.new" "$goroot"
}

ensure_go() {
  good_go >/dev/null && return 0
  local old wanted candidate
  wanted=$(wanted_go)
  if ! old=$(command -v go); then
    candidate=$(apt-cache policy golang-go 2>/dev/null | awk '/Candidate:/ { print $2 }')
    say "no go $wanted here; the distribution has: ${candidate:-unknown}"
    apt_install golang-go
    hash -r
    good_go >/dev/null && return 0
    old=$(command -v go) || die "golang-go is installed but there is no go in PATH"
  fi
  fetch_go "$old"
  good_go >/dev/null || die "$goroot/bin/go is there but does not answer as go $wanted"
}

main() {
  with_docker=no
  local check=no arg
  for arg in "$@"; do
    case $arg in
      --with-docker) with_docker=yes ;;
      --check) check=yes ;;
      --print-go)
        good_go || echo go
        return 0
        ;;
      -h | --help)
        sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
        return 0
        ;;
      *) die "unknown argument $arg (see --help)" ;;
    esac
  done

  local packages
  mapfile -t packages < <(missing_packages)
  if [ "$check" = yes ]; then
    good_go >/dev/null || packages+=("go >= $(wanted_go)")
    [ ${#packages[@]} -eq 0 ] || die "missing: ${packages[*]}"
    return 0
  fi
  [ ${#packages[@]} -eq 0 ] || apt_install "${packages[@]}"
  ensure_go
}

main "$@"
