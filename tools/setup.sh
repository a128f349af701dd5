#!/usr/bin/env bash
# All the set-up of a Debian 12 machine: the packages of tools/packages-debian.txt that are missing,
# and .venv with tools/requirements.txt. Every make target that builds calls it, so it asks dpkg and
# one stamp and is done in milliseconds when nothing changed.
#
# PYTHON names the interpreter that .venv is made with (python3 if unset, 3.11 or newer); it is read
# only when .venv is made. Where it is not root it uses sudo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  printf 'set-up: %s\n' "$@" >&2
  exit 1
}

# One set-up of a tree at a time. The lock is on this file, so none is left behind.
exec 9<tools/setup.sh
flock 9

install_packages() {
  command -v dpkg-query >/dev/null ||
    fail "this is not Debian; install what tools/packages-debian.txt lists, under its names here"
  local wanted missing=() package status
  mapfile -t wanted < <(grep -v '^#' tools/packages-debian.txt)
  declare -A have=()
  # A package that dpkg never heard of makes dpkg-query complain and exit 1; it is missing then.
  while read -r package status; do
    [[ $status == installed ]] && have[$package]=1
  done < <(dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' "${wanted[@]}" \
    2>/dev/null)
  for package in "${wanted[@]}"; do
    [[ -n ${have[$package]:-} ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      fail "packages are missing, and this is neither root nor is there sudo. Run as root:" \
        "apt-get update && apt-get install --yes ${missing[*]}"
    as_root=(sudo)
  fi
  echo "set-up: installing ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get --quiet --yes -o DPkg::Lock::Timeout=600)
  "${apt[@]}" update 9<&-
  "${apt[@]}" install --no-install-recommends "${missing[@]}" 9<&-
}

# The stamp in .venv says which list it was made from, or "unfinished" from the first change to the
# last. An unfinished .venv cannot be trusted (pip believes a half-unpacked package) and is emptied.
# One without a stamp, or behind a link, is not ours to empty.
install_venv() {
  local stamp=.venv/shardlight-setup key was=unfinished
  key="$(sha256sum tools/requirements.txt) in $PWD"
  [[ -x .venv/bin/python && -f $stamp ]] && was=$(<"$stamp")
  if [[ -L .venv ]] || { [[ -e .venv && ! -f $stamp ]] && ! rmdir .venv 2>/dev/null; }; then
    fail ".venv was not made by tools/setup.sh; move it away"
  fi
  [[ $was == "$key" ]] && return 0

  mkdir -p .venv
  echo unfinished >"$stamp"
  [[ $was == *" in $PWD" ]] || make_venv
  .venv/bin/python -m pip install --disable-pip-version-check --quiet --requirement \
    tools/requirements.txt
  echo "$key" >"$stamp.new"
  mv "$stamp.new" "$stamp"
}

make_venv() {
  local python=${PYTHON:-python3}
  command -v "$python" >/dev/null || fail "no $python; PYTHON=… names another interpreter"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "Python 3.11 or newer is needed, and $python is $("$python" -V 2>&1);" \
      "PYTHON=… names another interpreter"
  echo "set-up: making .venv with $("$python" -V)"
  find .venv -mindepth 1 -maxdepth 1 ! -name shardlight-setup -exec rm -rf {} +
  "$python" -m venv .venv
}

install_packages
install_venv
