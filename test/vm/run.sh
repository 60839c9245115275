#!/usr/bin/env bash
# Runs a command on Debian's stock cloud kernel (6.1: modules as files, no ECMP hash
# seed, netem and red present) in a virtual machine, with no change to this host.
#
#   test/vm/run.sh [-f FILE]... COMMAND [ARG]...
#   test/vm/run.sh netkvlab doctor
#   test/vm/run.sh -f my.yaml netkvlab up my.yaml
#
# This script has the command's output on stdout, and its exit code. The machine has
# busybox, bin/netkvlab as /bin/netkvlab, and each FILE in /files, which is the working
# folder. It has no network and no disk. The kernel's console goes to
# bin/vm/console.log. Environment: VM_TIMEOUT (seconds, 120: then exit 124), VM_CPUS
# (2), VM_MEMORY (MiB, 1024), VM_ACCEL and VM_CPU (tcg and max: software emulation, which
# works everywhere; kvm and host are faster, but may fail in nested virtualisation).
#
# The kernel package is downloaded and unpacked, never installed. Only apt packages are
# fetched, once, into bin/vm.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=$repo/bin/vm
timeout=${VM_TIMEOUT:-120}

say() { printf 'vm: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 125
}

files=()
while getopts f: option; do
  case $option in
    f) files+=("$OPTARG") ;;
    *) die "usage: test/vm/run.sh [-f FILE]... COMMAND [ARG]..." ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || die "no command given (try: test/vm/run.sh netkvlab doctor)"
[ "$(uname -m)" = x86_64 ] || die "this lane knows only x86_64"

# need COMMAND PACKAGE: installs what runs on this host, if root may.
need() {
  PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null && return
  [ "$(id -u)" -eq 0 ] || die "$1 is missing: install $2"
  say "installing $2"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1 ||
    die "could not install $2: run apt-get update and try again"
}

# fetch PACKAGE FOLDER: downloads a Debian package and unpacks it.
fetch() {
  local work
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  say "fetching $1"
  (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$1" >&2) ||
    die "could not download $1 (a Debian package): run apt-get update, or unpack one into $2 yourself"
  dpkg -x "$work"/*.deb "$work/tree"
  rm -rf "$2"
  mv "$work/tree" "$2"
  rm -rf "$work"
}

# prepare fills the cache: the kernel with its modules indexed, and busybox.
prepare() {
  local package
  mkdir -p "$cache"
  need qemu-system-x86_64 qemu-system-x86
  need cpio cpio
  need depmod kmod
  if [ ! -e "$cache/busybox/bin/busybox" ]; then
    fetch busybox-static "$cache/busybox"
  fi
  if [ ! -e "$cache/kernel/indexed" ]; then
    package=$(apt-cache depends linux-image-cloud-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-/ { print $2; exit }')
    [ -n "$package" ] || die "apt knows no linux-image-cloud-amd64: run apt-get update (Debian only)"
    fetch "$package" "$cache/kernel"
    version=$(basename "$cache"/kernel/lib/modules/*)
    PATH=$PATH:/usr/sbin:/sbin depmod -b "$cache/kernel" "$version"
    touch "$cache/kernel/indexed"
  fi
  version=$(basename "$cache"/kernel/lib/modules/*)
}

# modules prints the paths of what a lab may ask for, and of what those need.
modules() {
  awk -F ': *' '
    { needs[$1] = $2 }
    $1 ~ "^kernel/net/(sched|ipv4)/" || $1 ~ "/(veth|ifb|dummy)\\.ko" { want[$1] }
    END {
      do {
        grew = 0
        for (m in want) {
          n = split(needs[m], d, " ")
          for (i = 1; i <= n; i++) if (!(d[i] in want)) { want[d[i]]; grew = 1 }
        }
      } while (grew)
      for (m in want) print m
    }' "$cache/kernel/lib/modules/$version/modules.dep"
}

# initramfs ARG...: packs the machine's whole file system into $work/initrd.
initramfs() {
  local tree=$work/tree lib module file
  lib=lib/modules/$version
  mkdir -p "$tree"/{bin,sbin,proc,sys,dev,run,tmp,etc,root,files,var} "$tree/$lib"
  cp "$cache/busybox/bin/busybox" "$tree/bin/"
  # The kernel calls modprobe when it needs a module.
  ln -s ../bin/busybox "$tree/sbin/modprobe"
  cp "$cache/kernel/$lib"/modules.{dep,alias,symbols,builtin,order} "$tree/$lib/"
  while read -r module; do
    install -D -m 0644 "$cache/kernel/$lib/$module" "$tree/$lib/$module"
  done < <(modules)
  if [ -e "$repo/bin/netkvlab" ]; then cp "$repo/bin/netkvlab" "$tree/bin/"; fi
  for file in "${files[@]}"; do cp "$file" "$tree/files/"; done
  install -m 0755 "$repo/test/vm/init" "$tree/init"
  printf '%q ' "$@" >"$tree/command"
  (cd "$tree" && find . -print0 | cpio --null -o -H newc --quiet --owner 0:0) | gzip -1 >"$work/initrd"
}

prepare
work=$(mktemp -d "$cache/run.XXXXXX")
trap 'rm -rf "$work"' EXIT
initramfs "$@"

start=$(date +%s%N)
timeout --kill-after=5 "$timeout" qemu-system-x86_64 -accel "${VM_ACCEL:-tcg}" -cpu "${VM_CPU:-max}" \
  -smp "${VM_CPUS:-2}" -m "${VM_MEMORY:-1024}" -nodefaults -display none -no-reboot -nic none \
  -kernel "$cache/kernel/boot/vmlinuz-$version" -initrd "$work/initrd" \
  -append "console=ttyS0 quiet panic=-1 mitigations=off clocksource=tsc tsc=reliable" \
  -serial "file:$cache/console.log" -serial "file:$work/output" </dev/null 2>"$work/qemu.log" || {
  status=$?
  cat "$work/output" 2>/dev/null || true
  if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    say "still running after $timeout s (console: $cache/console.log)"
    exit 124
  fi
  cat "$work/qemu.log" >&2
  die "qemu ended with $status"
}
say "kernel $version, $((($(date +%s%N) - start) / 1000000)) ms from power on to power off"

# The init script prints the last line; without it the machine has crashed.
last=$(tail -n 1 "$work/output")
case $last in
  "vm exit "*)
    sed '$d' "$work/output"
    exit "${last#vm exit }"
    ;;
esac
cat "$work/output"
tail -n 20 "$cache/console.log" >&2
die "the machine stopped before the command ended"
