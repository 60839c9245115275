#!/usr/bin/env bash
# Starts a Docker engine for the tests, where one is installed and none answers.
#
#   scripts/docker.sh start DIR   start an engine that keeps all its files in DIR, and print its DOCKER_HOST;
#                                 print nothing where an engine answers already or none is installed
#   scripts/docker.sh stop DIR    stop what start has started in DIR, and nothing else
#
# The engine gets no bridge and sets no firewall rule, so the host's network stays as it is.
set -euo pipefail

say() { printf 'docker: %s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo -- "$@"
  fi
}

PATH="$PATH:/usr/sbin:/sbin"

start() {
  local dir=$1
  if ! command -v docker >/dev/null || ! command -v dockerd >/dev/null; then
    say "not installed (scripts/deps.sh --with-docker): the tests with containers are skipped"
    return 0
  fi
  if as_root docker version >/dev/null 2>&1; then
    return 0
  fi
  mkdir -p "$dir"
  as_root setsid dockerd --host "unix://$dir/docker.sock" --pidfile "$dir/dockerd.pid" \
    --data-root "$dir/data" --exec-root "$dir/exec" \
    --bridge none --iptables=false --ip6tables=false --ip-forward=false \
    --containerd-namespace netkvlab-tests --containerd-plugins-namespace netkvlab-tests-plugins \
    </dev/null >"$dir/dockerd.log" 2>&1 &
  for _ in $(seq 150); do
    if as_root docker --host "unix://$dir/docker.sock" version >/dev/null 2>&1; then
      say "started an engine for the tests"
      printf 'unix://%s/docker.sock\n' "$dir"
      return 0
    fi
    sleep 0.2
  done
  say "the engine did not come up; the end of its log:"
  tail -n 5 "$dir/dockerd.log" >&2
  stop "$dir"
}

stop() {
  local dir=$1 pid
  [ -e "$dir/dockerd.pid" ] || return 0
  pid=$(cat "$dir/dockerd.pid")
  as_root kill "$pid" 2>/dev/null || true
  for _ in $(seq 100); do
    [ -e "/proc/$pid" ] || break
    sleep 0.1
  done
  # While the engine's mounts exist below its folder, the folder cannot be deleted.
  awk '{ print $5 }' /proc/self/mountinfo | grep "^$dir/" | sort -r | while read -r mount; do
    as_root umount -l "$mount"
  done || true
  as_root rm -rf "$dir"
}

case "${1:-} ${2:-}" in
  "start /"*) start "$2" ;;
  "stop /"*) stop "$2" ;;
  *)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
    ;;
esac
